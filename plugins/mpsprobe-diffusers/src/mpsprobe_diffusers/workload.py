"""``diffusers:PIPELINE`` and ``diffusers:PIPELINE/PART``, brought to life by ``build``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_diffusers.plugin import PREFIX

if TYPE_CHECKING:
    from mpsprobe.protocols import Workload
    from mpsprobe_diffusers.recipe import Recipe


def load(name: str) -> Workload:
    """The workload called ``name``.

    Raises:
        UnknownName: no such pipeline, or the pipeline has no such part; carries the nearest.
        MissingPackage: a package that it needs is not installed.
    """
    from mpsprobe_diffusers.recipe import recipe

    pipeline, _, part = name.removeprefix(PREFIX).partition("/")
    return PipelineWorkload(name, recipe(pipeline), part)


class PipelineWorkload:
    """A pipeline with random weights, whole or a part of it. Satisfies ``mpsprobe.protocols.Workload``."""

    framework = "torch"

    def __init__(self, name: str, recipe: Recipe, part: str = "") -> None:
        self.name = name
        self.recipe = recipe
        self.part = part
        self.small = False

    def build(self, options: RunOptions) -> TorchRun:
        """The models on torch's default device, and a call of the pipeline, of the part, or a LoRA training step.

        Raises:
            UsageError: an option that a pipeline cannot honour.
            WorkloadError: it cannot be built.
        """
        import torch

        from mpsprobe_diffusers.assemble import assemble
        from mpsprobe_diffusers.inputs import call_inputs
        from mpsprobe_diffusers.running import Models, calling

        dtype = getattr(torch, options.dtype)
        batch_size = 1 if options.batch_size is None else options.batch_size
        small = self.small
        pipeline = assemble(self.recipe, dtype, f"'{self.name}'", small=small)
        inputs = call_inputs(pipeline, self.recipe, batch_size, small=small)
        return TorchRun(
            model=Models(pipeline),
            kwargs=inputs,
            architecture=type(pipeline).__name__,
            call=calling(pipeline),
            batch_size=batch_size,
            notes=(*self.recipe.notes, f"{inputs['num_inference_steps']} denoising steps"),
        )

    def describe(self) -> Mapping[str, Any]:
        """The components with their sizes."""
        return {"pipeline": self.recipe.pipeline.__name__}
