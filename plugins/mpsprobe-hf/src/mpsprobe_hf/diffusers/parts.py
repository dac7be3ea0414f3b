"""The parts of a pipeline alone, called with what the pipeline calls them with."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_hf.diffusers.assemble import assemble
from mpsprobe_hf.diffusers.inputs import call_inputs
from mpsprobe_hf.diffusers.models import make
from mpsprobe_hf.diffusers.recipe import AUTOENCODERS, STEP, Recipe
from mpsprobe_hf.diffusers.shapes import WithoutData, arguments, filled
from mpsprobe_hf.diffusers.step import step_run


@dataclass(frozen=True, slots=True)
class Part:
    """A component that the pipeline calls.

    Attributes:
        pipeline: whose models are on meta.
        model: the component, on torch's default device.
        method: of the model that is called.
        args, kwargs: what the pipeline calls it with, tensors on torch's default device.
    """

    pipeline: Any
    model: Any
    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def part(recipe: Recipe, name: str, options: RunOptions, who: str, *, guided: bool = True) -> Part:
    """The part of a pipeline called ``name``; ``guided`` as in inference, where many pipelines double the batch.

    Raises:
        WorkloadError: the pipeline does not call it by itself, or cannot be built.
    """
    small, dtype = options.size == "small", getattr(torch, options.dtype)
    component = name if name in recipe.components else name.removesuffix("-encoder")
    decodes = component in AUTOENCODERS
    few = [other for other in recipe.components if decodes or other.endswith("encoder") or "text_encoder" in other]
    with torch.device("meta"):
        pipeline = assemble(recipe, dtype, who, small=small, few=few)
    model = make(recipe.components[component], dtype, who, small=small)
    if type(model) is not type(getattr(pipeline, component)):  # AnimateDiff makes another UNet of the one it gets
        model = getattr(assemble(recipe, dtype, who, small=small), component)
    inputs = call_inputs(pipeline, recipe, options.batch_size or 1, small=small)
    if not guided and "guidance_scale" in inspect.signature(type(pipeline).__call__).parameters:
        inputs["guidance_scale"] = 1.0
    method = "decode" if decodes else "forward"
    args, kwargs = arguments(pipeline, component, method, inputs, who)
    if component != name:
        method = "encode"
        with WithoutData(), torch.no_grad():
            args, kwargs = (_tensor(getattr(pipeline, component).decode(*args, **kwargs)),), {}
    return Part(pipeline, model, method, filled(args), filled(kwargs))


def part_run(recipe: Recipe, name: str, options: RunOptions, who: str) -> TorchRun:
    """One call of the part called ``name``; arguments as ``part`` takes them."""
    if name == STEP:
        return step_run(recipe, options, who)
    found = part(recipe, name, options, who)

    def call(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        output = getattr(model, found.method)(*args, **kwargs)
        return output.latent_dist.sample() if hasattr(output, "latent_dist") else output

    return TorchRun(
        model=found.model,
        args=found.args,
        kwargs=found.kwargs,
        architecture=type(found.model).__name__,
        call=call,
        batch_size=options.batch_size or 1,
        notes=(*recipe.notes, f"{found.method} with what {recipe.pipeline.__name__} passes to it"),
    )


def _tensor(output: Any) -> torch.Tensor:
    while not isinstance(output, torch.Tensor):
        output = output[0]
    return output
