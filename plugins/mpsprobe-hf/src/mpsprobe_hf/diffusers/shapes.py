"""A pipeline run without the data of its weights, to see what it calls one of its models with.

Nothing is judged here: this works where the workload is built, whatever device it is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.fx.experimental import _config as of_meta
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from mpsprobe.errors import WorkloadError
from mpsprobe.suggestions import in_short
from mpsprobe_hf.diffusers.models import quiet
from mpsprobe_hf.diffusers.running import renew_schedulers

_READS = torch.ops.aten._local_scalar_dense.default
_INDEXES = torch.ops.aten.index.Tensor
_COPIES = torch.ops.aten._to_copy.default
_CPU = torch.device("cpu")


class WithoutData(TorchDispatchMode):
    """Calls of meta tensors and tensors of the CPU together; what they return has no data either."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
        if not any(tensor.is_meta for tensor in tensors):
            return func(*args, **kwargs)
        if func is _READS:
            return torch.ones((), dtype=tensors[0].dtype).item()
        if func is _COPIES and kwargs.get("device") == _CPU:
            return torch.zeros(tensors[0].shape, dtype=kwargs.get("dtype") or tensors[0].dtype, device=_CPU)
        if func is _INDEXES:
            args = (args[0], [place for index in args[1] for place in _places(index)])
        if not all(tensor.is_meta for tensor in tensors):
            args, kwargs = tree_map(
                lambda one: one.to("meta") if isinstance(one, torch.Tensor) else one, (args, kwargs)
            )
        return func(*args, **kwargs)


def _places(index: Any) -> tuple[Any, ...]:
    """A mask whose values are known, as the places that it selects."""
    known = isinstance(index, torch.Tensor) and index.dtype == torch.bool and not index.is_meta
    return index.nonzero(as_tuple=True) if known else (index,)


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
        patch.object(of_meta, "meta_nonzero_assume_all_nonzero", True),
        torch._C.DisableTorchFunction(),  # of whoever builds the workload
        torch.random.fork_rng(devices=[]),
        WithoutData(),
        quiet(),
        torch.no_grad(),
    ):
        yield


def arguments(
    pipeline: Any, part: str, method: str, inputs: Mapping[str, Any], who: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What ``pipeline(**inputs)`` calls ``method`` of its component ``part`` with first.

    Raises WorkloadError: it does not come to that.
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
        return reached.arguments, reached.named
    except Exception as error:
        raise WorkloadError(
            f"what {type(pipeline).__name__} passes to {who} could not be found: {in_short(error)}",
            "Take the whole pipeline.",
        ) from error
    finally:
        vars(component).pop(method)
    raise WorkloadError(
        f"{type(pipeline).__name__} does not call {part}.{method} by itself", "Take the whole pipeline."
    )


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
