"""One denoising step as the pipeline takes it: its own code, with the other models replaced by what they returned."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.suggestions import in_short
from mpsprobe_hf.diffusers.assemble import assemble
from mpsprobe_hf.diffusers.inputs import call_inputs
from mpsprobe_hf.diffusers.models import make, quiet
from mpsprobe_hf.diffusers.recipe import Recipe
from mpsprobe_hf.diffusers.running import Models, renew_schedulers
from mpsprobe_hf.diffusers.shapes import filled, on_the_cpu

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

    Raises:
        WorkloadError: it cannot be built, or cannot be run without data.
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
