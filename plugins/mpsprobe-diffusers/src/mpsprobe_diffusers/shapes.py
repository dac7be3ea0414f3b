"""A pipeline run without the data of its weights, to see what it calls one of its models with.

Nothing is judged here: this works where the workload is built, whatever device it is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from mpsprobe.errors import WorkloadError
from mpsprobe.suggestions import in_short
from mpsprobe_diffusers.models import quiet
from mpsprobe_diffusers.running import renew_schedulers

_READS = torch.ops.aten._local_scalar_dense.default
_COPIES = torch.ops.aten._to_copy.default
_CPU = torch.device("cpu")


class WithoutData(TorchDispatchMode):
    """Calls of meta tensors and tensors of the CPU together; what they return has no data either."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, torch.Tensor)]
        if not any(one.is_meta for one in tensors):
            return func(*args, **kwargs)
        if func is _READS:
            return torch.ones((), dtype=tensors[0].dtype).item()
        if func is _COPIES:
            kwargs.pop("device", None)
        if not all(one.is_meta for one in tensors):
            args, kwargs = tree_map(lambda one: one.to("meta") if isinstance(one, torch.Tensor) else one, (args, kwargs))
        return func(*args, **kwargs)


class Reached(Exception):
    """The pipeline calls the model that was waited for."""

    def __init__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        super().__init__("reached")
        self.arguments = args
        self.named = dict(kwargs)


@contextmanager
def on_the_cpu(pipeline: Any) -> Iterator[None]:
    """The pipeline makes its own tensors on the CPU, so that timesteps and masks keep their values."""
    kind = type(pipeline)
    with (
        patch.object(kind, "_execution_device", _CPU),
        patch.object(kind, "device", _CPU),
        WithoutData(),
        quiet(),
        torch.no_grad(),
    ):
        yield


def arguments(pipeline: Any, part: str, method: str, inputs: Mapping[str, Any], who: str) -> Reached:
    """What ``pipeline(**inputs)`` calls ``method`` of its component ``part`` with first.

    Args:
        pipeline: with models on meta.
        part, method: the one that is waited for.
        inputs: of the pipeline.
        who: what the user typed, for errors.

    Raises:
        WorkloadError: it does not come to that.
    """

    def stop(*args: Any, **kwargs: Any) -> Any:
        raise Reached(args, kwargs)

    renew_schedulers(pipeline)
    component = getattr(pipeline, part)
    vars(component)[method] = stop
    try:
        with on_the_cpu(pipeline):
            pipeline(**inputs)
    except Reached as reached:
        return reached
    except Exception as error:
        raise WorkloadError(
            f"the inputs of {who} could not be found: {in_short(error)}",
            f"Take the whole pipeline: {who.partition('/')[0]}'",
        ) from error
    finally:
        vars(component).pop(method)
    raise WorkloadError(f"{type(pipeline).__name__} does not call {part}.{method} by itself", "Take the whole pipeline.")


def filled(value: Any) -> Any:
    """``value`` with tensors on torch's default device: known values stay, others are random or 0."""
    return tree_map(_filled, value)


def _filled(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if not value.is_meta:
        return value.detach().clone()
    if value.is_floating_point():
        return torch.randn(value.shape, dtype=value.dtype)
    return torch.zeros(value.shape, dtype=value.dtype)
