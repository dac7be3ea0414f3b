"""Autocast: casts as the target release makes them on MPS.

PyTorch's own kernels under AutocastMPS ask ``tensor.is_mps()`` in C++ before they cast
(``is_autocast_eligible``, ``aten/src/ATen/autocast_mode.h``) and so leave virtual tensors alone. Python kernels
take their place while the device is open. Which operators a release registers there comes from its
table (none before 2.5.0); the policy of each from the template arguments of those kernels
(``autocast_mode.cpp``; the same for an operator in every release). On MPS what other backends do by
setting a ``dtype`` argument is a plain cast to float32. Other backends are judged by the same policy, for the
operators that their table has under their autocast key.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_map

from mpsprobe_coverage.devices.virtual.tensor import VirtualTensor, stands_for
from mpsprobe_coverage.knowledge.calls.keys import overload_named
from mpsprobe_coverage.knowledge.calls.spec import tensors_in
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

_CASTABLE = (torch.float16, torch.bfloat16, torch.float32)
_LOWER = {
    "_convolution", "_mps_convolution", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul",
    "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "convolution", "einsum",
    "linalg_multi_dot", "linear", "lstm_cell", "matmul", "mm", "mv", "prelu", "scaled_dot_product_attention",
}  # fmt: skip
_PROMOTE = {
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "grid_sampler", "index_put", "scatter_add",
    "tensordot",
}  # fmt: skip


class Casts:
    """Casts tensors, each weight once for a region as PyTorch's weight cache does."""

    def __init__(self) -> None:
        self.used = False  # a region of autocast ended, on whatever device
        self._cache: dict[tuple[int, torch.dtype], tuple[Any, Any]] = {}
        self.forget = self._cache.clear  # at the end of a region: the next one casts its weights anew

    def to(self, value: Any, dtype: torch.dtype) -> Any:
        """``value`` as ``dtype`` if it is a virtual float16, bfloat16 or float32 tensor; anything else as it is."""
        if type(value) is not VirtualTensor or value.spec.dtype not in _CASTABLE or value.spec.dtype is dtype:
            return value
        is_weight = dtype is not torch.float32 and value.spec.dtype is torch.float32
        if not (is_weight and value.requires_grad and value.is_leaf and torch.is_autocast_cache_enabled()):
            return value.to(dtype)
        key = (id(value), dtype)
        if key not in self._cache:
            self._cache[key] = (value, value.to(dtype))
        return self._cache[key][1]


@contextmanager
def autocast_kernels(table: KernelTable, casts: Casts) -> Iterator[None]:
    """Register the release's autocast kernels for as long as the context is open."""
    key = table.autocast_key
    parsed = torch._C._parse_dispatch_key(key)
    if parsed is None:  # the installed torch has no autocast for this backend (2.6: MTIA), so it casts nothing
        yield
        return
    library, clear = torch.library.Library("aten", "IMPL", key), torch.clear_autocast_cache

    def clear_and_forget() -> None:
        casts.forget()
        casts.used = True
        clear()

    key_set = torch._C.DispatchKeySet(parsed)
    try:
        wanted = table.keys.get(key, frozenset())
        with warnings.catch_warnings():
            # PyTorch warns that a kernel is overridden, which is the point; it is put back below.
            warnings.simplefilter("ignore")
            for name in {*wanted, *_registered_here(key)}:
                if torch._C._dispatch_has_kernel(name):
                    func = overload_named(name)
                    kernel = _kernel(func, casts, key_set) if name in wanted else _without(func, key_set)
                    library.impl(name.removeprefix("aten::"), kernel)
        torch.clear_autocast_cache = clear_and_forget  # called where a region ends
        yield
    finally:
        torch.clear_autocast_cache = clear
        casts.forget()
        library._destroy()


def _registered_here(key: str) -> list[str]:
    """What the installed torch has under the key: a release that lacks one of them must not cast there."""
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return [name for name in names if name.startswith("aten::")]


def _without(func: Any, key_set: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(key_set):
            return func(*args, **kwargs)

    return call


def _kernel(func: Any, casts: Casts, key_set: Any) -> Callable[..., Any]:
    base = func._schema.name.removeprefix("aten::")

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(key_set):
            if base in _LOWER:
                dtype = torch.get_autocast_dtype(stands_for.type)
            elif base in _PROMOTE:
                dtype = _widest((args, kwargs))
            else:
                dtype = torch.float32
            args, kwargs = tree_map(lambda value: casts.to(value, dtype), (args, kwargs))
            return func(*args, **kwargs)

    return call


def _widest(values: Any) -> torch.dtype:
    """float32 if any castable tensor is, else the autocast dtype."""
    dtypes = {tensor.spec.dtype for tensor in tensors_in(values) if type(tensor) is VirtualTensor}
    return torch.float32 if torch.float32 in dtypes else torch.get_autocast_dtype(stands_for.type)
