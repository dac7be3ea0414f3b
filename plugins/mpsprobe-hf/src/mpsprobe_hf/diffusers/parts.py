"""The parts of a pipeline alone, called with what the pipeline calls them with; and one denoising step.

The step is the pipeline's own code, with the other models replaced by what they returned.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.suggestions import in_short
from mpsprobe_hf.diffusers.assemble import assemble
from mpsprobe_hf.diffusers.inputs import call_inputs
from mpsprobe_hf.diffusers.models import make, quiet
from mpsprobe_hf.diffusers.recipe import AUTOENCODERS, STEP, Recipe
from mpsprobe_hf.diffusers.running import Models, renew_schedulers
from mpsprobe_hf.diffusers.shapes import WithoutData, arguments, filled, on_the_cpu

_METHODS = ("forward", "encode", "decode")
_REPLAYED = "_replayed"
STOPS = "callback_on_step_end"
"""What pipelines call a function after each step by."""


class _Done(Exception):
    """The first step is over; carries the latents."""


def _stop(pipeline: Any, step: int, timestep: Any, given: Mapping[str, Any]) -> Any:
    raise _Done(given.get("latents"))


def step_run(recipe: Recipe, options: RunOptions, who: str) -> TorchRun:
    """A run of the pipeline up to the end of its first step, of which only the denoisers are models.

    Raises WorkloadError: it cannot be built, or cannot be run without data.
    """
    small, dtype = options.size == "small", getattr(torch, options.dtype)
    names = [name for name in recipe.components if name.startswith(recipe.denoiser or "")]
    denoisers = {name: make(recipe.components[name], dtype, who, small=small) for name in names}
    with torch.device("meta"):
        few = [name for name in recipe.components if "encoder" in name]
        pipeline = assemble(recipe, dtype, who, small=small, few=few)
    inputs = call_inputs(pipeline, recipe, options.batch_size or 1, small=small)
    if STOPS not in inspect.signature(type(pipeline).__call__).parameters:
        raise WorkloadError(f"{type(pipeline).__name__} cannot be stopped after a step", "Take the whole pipeline.")
    renew_schedulers(pipeline)
    returned: list[Any] = []
    try:
        with on_the_cpu(pipeline), _others(pipeline, names, lambda own: _recorded(own, returned)):
            pipeline(**inputs, **{STOPS: _stop})
    except _Done:
        pass
    except Exception as error:
        raise WorkloadError(
            f"{who} could not be separated from the other models: {in_short(error)}", "Take the whole pipeline."
        ) from error
    for name, model in denoisers.items():
        setattr(pipeline, name, model)

    def call(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        renew_schedulers(pipeline)
        answers = iter(kwargs[_REPLAYED])
        device = next(model.parameters()).device
        with (
            quiet(),
            patch.object(type(pipeline), "_execution_device", device),
            patch.object(type(pipeline), "device", device),
            _others(pipeline, names, lambda own: lambda *args, **kwargs: next(answers)),
        ):
            try:
                return pipeline(**{key: value for key, value in kwargs.items() if key != _REPLAYED}, **{STOPS: _stop})
            except _Done as done:
                return done.args[0]

    return TorchRun(
        model=Models(pipeline, names),
        kwargs={**inputs, _REPLAYED: filled(returned)},
        architecture=type(pipeline).__name__,
        call=call,
        batch_size=options.batch_size or 1,
        notes=(*recipe.notes, "one denoising step: what text encoders and autoencoders return is there already"),
    )


@contextmanager
def _others(pipeline: Any, denoisers: list[str], instead: Callable[[Any], Any]) -> Iterator[None]:
    """The methods of all models but the denoisers replaced by ``instead(method)``."""
    with ExitStack() as exits:
        for name, component in pipeline.components.items():
            if isinstance(component, torch.nn.Module) and name not in denoisers:
                for method in _METHODS:
                    own = getattr(component, method, None)
                    if own is not None:
                        vars(component)[method] = instead(own)
                        exits.callback(vars(component).pop, method)
        yield


def _recorded(own: Any, returned: list[Any]) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        place = len(returned)
        output = own(*args, **kwargs)
        del returned[place:]  # encode calls forward
        returned.append(output)
        return output

    return run


@dataclass(frozen=True, slots=True)
class Part:
    """A component that the pipeline calls."""

    pipeline: Any  # whose models are on meta
    model: Any  # the component, on torch's default device
    method: str  # of the model that is called
    # args, kwargs: what the pipeline calls it with, tensors on torch's default device
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def part(recipe: Recipe, name: str, options: RunOptions, who: str, *, guided: bool = True) -> Part:
    """The part of a pipeline called ``name``; ``guided`` as in inference, where many pipelines double the batch.

    Raises WorkloadError: the pipeline does not call it by itself, or cannot be built.
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
    component = part(recipe, name, options, who)

    def call(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        output = getattr(model, component.method)(*args, **kwargs)
        return output.latent_dist.sample() if hasattr(output, "latent_dist") else output

    return TorchRun(
        model=component.model,
        args=component.args,
        kwargs=component.kwargs,
        architecture=type(component.model).__name__,
        call=call,
        batch_size=options.batch_size or 1,
        notes=(*recipe.notes, f"{component.method} with what {recipe.pipeline.__name__} passes to it"),
    )


def _tensor(output: Any) -> torch.Tensor:
    while not isinstance(output, torch.Tensor):
        output = output[0]
    return output
