"""A whole pipeline as one model, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch

from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_hf.diffusers.assemble import assemble
from mpsprobe_hf.diffusers.inputs import call_inputs
from mpsprobe_hf.diffusers.models import quiet
from mpsprobe_hf.diffusers.recipe import Recipe

Call = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]


class Models(torch.nn.Module):
    """All models of a pipeline, or those called ``names``, to be moved together. It is not called itself."""

    def __init__(self, pipeline: Any, names: Collection[str] | None = None) -> None:
        super().__init__()
        for name, component in pipeline.components.items():
            if isinstance(component, torch.nn.Module) and (names is None or name in names):
                self.add_module(name, component)
        self.eval()


def pipeline_run(recipe: Recipe, options: RunOptions, who: str) -> TorchRun:
    """What ``pipe(prompt)`` does: text encoders, a few denoising steps with guidance and scheduler, the decoder."""
    small = options.size == "small"
    pipeline = assemble(recipe, getattr(torch, options.dtype), who, small=small)
    inputs = call_inputs(pipeline, recipe, options.batch_size or 1, small=small)
    notes = [*recipe.notes]
    if "num_inference_steps" in inputs:
        notes.append(f"{inputs['num_inference_steps']} denoising steps")
    if inputs.get("output_type") == "pt":
        notes.append("frames stay tensors: they are not copied to the CPU")
    return TorchRun(
        model=Models(pipeline),
        kwargs=inputs,
        architecture=type(pipeline).__name__,
        call=_calling(pipeline),
        batch_size=options.batch_size or 1,
        notes=notes,
    )


def _calling(pipeline: Any) -> Call:
    def call(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        renew_schedulers(pipeline)
        with quiet():
            return pipeline(*args, **kwargs)

    return call


def renew_schedulers(pipeline: Any) -> None:
    """Put new schedulers with the same configurations into ``pipeline``: one keeps tensors of the device it ran on."""
    for name, component in pipeline.components.items():
        if "scheduler" in name and component is not None:
            with quiet(), torch.device("cpu"):
                setattr(pipeline, name, type(component).from_config(component.config))
