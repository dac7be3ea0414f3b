"""The target release's registrations, in the dispatcher of the torch that is installed here.

With them the dispatcher chooses as it would on a Mac: ``linear`` arrives whole in the releases that register it, and as
``t`` and ``addmm`` in those that do not. Only operators with a composite kernel above autograd need it: of all others
the dispatch mode takes every call before a kernel of a backend is looked for. Registrations are process-wide, so they
are undone when the device closes. On a build that has the backend nothing is registered: the real kernels are there.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_map

from mpsprobe_coverage.devices.virtual.tensor import VirtualTensor, stands_for
from mpsprobe_coverage.knowledge.calls.keys import has_kernel, is_implicit, overload_named
from mpsprobe_coverage.knowledge.calls.spec import tensors_in
from mpsprobe_coverage.knowledge.judging.renames import renames
from mpsprobe_coverage.knowledge.kernels.table import KernelFamily, KernelTable
from mpsprobe_coverage.recording.dispatch import in_dispatcher
from mpsprobe_coverage.recording.release_questions import is_composite, now_composite

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


@contextmanager
def registered(tables: Mapping[str, KernelTable], autograd: Mapping[str, Any]) -> Iterator[None]:
    """Register the operators of ``tables`` under the MPS key (or its backend's), ``autograd`` kernels above it."""
    with in_dispatcher() as register:
        # Is the backend in this process? Without ``empty`` no tensor could be made on it.
        if not has_kernel("aten::empty.memory_format", tables["aten"].backend.key):
            for table in {id(t): t for t in tables.values()}.values():
                key = table.backend.key
                names = _registered(table) | (renames(table).keys() - now_composite(table))
                # torch's Python code registers a few MPS kernels on every build (`torch/_refs/linalg`).
                absent = (name for name in names if is_implicit(name) and not has_kernel(name, key))
                register(key, dict.fromkeys(absent, _never_called))
        there = {name: run for name, run in autograd.items() if torch._C._dispatch_has_kernel(name)}
        register(f"Autograd{tables['aten'].backend.key}", there)
        yield


def _never_called(*_args: Any, **_kwargs: Any) -> Any:
    # The dispatch mode takes every call before it reaches the backend key.
    raise AssertionError("a registered placeholder was reached although the virtual device intercepts every call")


# Operators that other releases register, and this one makes of others above autograd, where no mode sees them:
# `repeat_interleave` was left to the CPU up to 1.13 and is made of others since; `linalg_lu_factor` had a kernel from
# 2.5 to 2.9. A run has to know for other releases whether they are called. The same for what another release makes of
# other operators than this one, where a run may be about both.
def noting(
    table: KernelTable,
    above: Mapping[str, Callable[..., Any]],
    note: Callable[[Any], Any],
    go_on: Callable[..., Any],
    elsewhere: frozenset[str],
) -> dict[str, Callable[..., Any]]:
    """Operator → kernel above autograd that calls ``note`` with the overload.

    After that it calls what stands there already (``above``), else ``go_on``, which runs the composite kernel.
    ``elsewhere`` has what other releases have above autograd, if a run may be about them too.
    """
    kernels: dict[str, Callable[..., Any]] = {}
    names = (_of_any(table.family) | elsewhere) - _registered(table)
    for name in names | above.keys() if elsewhere else names:
        func = overload_named(name)
        if not func._schema.is_mutable:  # `out=`
            kernels[name] = partial(_noted, partial(note, func), above.get(name) or partial(go_on, func))
    return kernels


def _noted(note: Callable[[], Any], go_on: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    note()
    return go_on(*args, **kwargs)


@functools.cache
def _of_any(family: KernelFamily) -> frozenset[str]:
    names = frozenset[str]().union(*(_registered(family.load(release)) for release in family.releases))
    return frozenset(name for name in names if name.startswith("aten::") and is_composite(name))


def _registered(table: KernelTable) -> frozenset[str]:
    return (table.native | table.fallback | table.error) - now_composite(table)


# Autocast: casts as the target release makes them on MPS. PyTorch's own kernels under AutocastMPS ask `tensor.is_mps()`
# in C++ before they cast (`is_autocast_eligible`, `aten/src/ATen/autocast_mode.h`) and so leave virtual tensors alone.
# Python kernels take their place while the device is open. Which operators a release registers there comes from its
# table (none before 2.5.0); the policy of each from the template arguments of those kernels (`autocast_mode.cpp`; the
# same for an operator in every release). On MPS what other backends do by setting a `dtype` argument is a plain cast to
# float32. Other backends are judged by the same policy, for the operators that their table has under their autocast
# key.
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
    key = table.autocast_key
    parsed = torch._C._parse_dispatch_key(key)
    if parsed is None:  # the installed torch has no autocast for this backend (2.6: MTIA), so it casts nothing
        yield
        return
    clear = torch.clear_autocast_cache

    def clear_and_forget() -> None:
        casts.forget()
        casts.used = True
        clear()

    wanted, key_set = table.keys.get(key, frozenset()), torch._C.DispatchKeySet(parsed)
    # Where the release lacks one that the installed torch has under the key, it must not cast there.
    kernels = {
        name: _kernel(overload_named(name), casts if name in wanted else None, key_set)
        for name in {*wanted, *torch._C._dispatch_get_registrations_for_dispatch_key(key)}
        if name.startswith("aten::") and torch._C._dispatch_has_kernel(name)
    }
    with in_dispatcher() as register:
        with warnings.catch_warnings():
            # PyTorch warns that a kernel is overridden, which is the point; it is put back at the end.
            warnings.simplefilter("ignore")
            register(key, kernels)
        try:
            torch.clear_autocast_cache = clear_and_forget  # called where a region ends
            yield
        finally:
            torch.clear_autocast_cache = clear
            casts.forget()


def _kernel(func: Any, casts: Casts | None, key_set: Any) -> Callable[..., Any]:
    base = func._schema.name.removeprefix("aten::")

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(key_set):
            if casts is None:
                return func(*args, **kwargs)
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
    dtypes = {tensor.spec.dtype for tensor in tensors_in(values) if type(tensor) is VirtualTensor}
    return torch.float32 if torch.float32 in dtypes else torch.get_autocast_dtype(stands_for.type)
