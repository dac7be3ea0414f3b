"""A whole pipeline as one model, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from mpsprobe_diffusers.models import quiet

Call = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]


class Models(torch.nn.Module):
    """All models of a pipeline, so that they are moved together. It is not called itself."""

    def __init__(self, pipeline: Any) -> None:
        super().__init__()
        for name, component in pipeline.components.items():
            if isinstance(component, torch.nn.Module):
                self.add_module(name, component)


def calling(pipeline: Any) -> Call:
    """A call of ``pipeline`` itself, each time with schedulers that have not seen another device."""

    def call(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        renew_schedulers(pipeline)
        with quiet():
            return pipeline(*args, **kwargs)

    return call


def renew_schedulers(pipeline: Any) -> None:
    """Put new schedulers with the same configurations into ``pipeline``."""
    for name, component in pipeline.components.items():
        if "scheduler" in name and component is not None:
            setattr(pipeline, name, type(component).from_config(component.config))
