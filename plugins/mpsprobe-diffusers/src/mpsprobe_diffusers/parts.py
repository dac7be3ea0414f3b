"""The parts of a pipeline: which there are, and what each one is called with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mpsprobe.protocols import RunOptions
from mpsprobe_diffusers.assemble import assemble
from mpsprobe_diffusers.inputs import call_inputs
from mpsprobe_diffusers.models import make
from mpsprobe_diffusers.recipe import DENOISERS, Recipe
from mpsprobe_diffusers.running import Call
from mpsprobe_diffusers.shapes import WithoutData, Reached, arguments, filled

ENCODES, DECODES = "encode", "decode"


class Part:
    """A component that the pipeline calls, alone.

    Args:
        recipe: of the pipeline.
        name: of the part, as ``recipe.parts()`` has it.
        options: of the run.
        who: what the user typed, for errors.
        small: few layers.

    Attributes:
        pipeline: with every model on meta but the part's, which is on torch's default device.
        model: the part.
        method: of the model that is called.
        given: what the pipeline calls it with, tensors on torch's default device.
    """

    def __init__(
        self, recipe: Recipe, name: str, options: RunOptions, who: str, *, small: bool, guided: bool = True
    ) -> None:
        dtype = getattr(torch, options.dtype)
        component = name.removesuffix("-encoder") if name not in recipe.components else name
        self.model = make(recipe.components[component], dtype, who, small=small)
        with torch.device("meta"):
            self.pipeline = assemble(recipe, dtype, who, small=small)
        inputs = call_inputs(self.pipeline, recipe, options.batch_size or 1, small=small)
        if not guided and "guidance_scale" in inputs_of(self.pipeline):
            inputs["guidance_scale"] = 1.0
        stand_in = getattr(self.pipeline, component)
        self.method = DECODES if hasattr(stand_in, DECODES) and component not in DENOISERS else "forward"
        found = arguments(self.pipeline, component, self.method, inputs, who)
        if component != name:
            self.method = ENCODES
            with WithoutData(), torch.no_grad():
                decoded = stand_in.decode(*found.arguments, **found.named)
            found = Reached((first(decoded),), {})
        self.args: tuple[Any, ...] = filled(found.arguments)
        self.kwargs: dict[str, Any] = filled(found.named)

    def call(self) -> Call:
        """How the part is run."""

        def run(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
            return getattr(model, self.method)(*args, **kwargs)

        def encode(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
            encoded = model.encode(*args, **kwargs)
            latents = getattr(encoded, "latent_dist", None)
            return encoded if latents is None else latents.sample()

        return encode if self.method == ENCODES else run


def inputs_of(pipeline: Any) -> Mapping[str, Any]:
    """The arguments of the pipeline's ``__call__`` by name."""
    import inspect

    return inspect.signature(type(pipeline).__call__).parameters


def first(output: Any) -> torch.Tensor:
    """The tensor that a model of diffusers returns, out of what is around it."""
    while not isinstance(output, torch.Tensor):
        output = output[0]
    return output
