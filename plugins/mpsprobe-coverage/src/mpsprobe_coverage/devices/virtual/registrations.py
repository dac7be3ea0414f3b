"""The target release's registrations, in the dispatcher of the torch that is installed here.

With them the dispatcher chooses as it would on a Mac: ``linear`` arrives whole in the releases that register it, and as
``t`` and ``addmm`` in those that do not. Only operators with a composite kernel above autograd need it: of all others
the dispatch mode takes every call before a kernel of a backend is looked for. Registrations are process-wide, so they
are undone when the device closes. On a build that has the backend nothing is registered: the real kernels are there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from mpsprobe_coverage.knowledge.calls.keys import has_kernel, is_implicit, overload_named
from mpsprobe_coverage.knowledge.judging.renames import renames
from mpsprobe_coverage.knowledge.kernels.table import KernelFamily, KernelTable
from mpsprobe_coverage.recording.missing_derivatives import is_composite, now_composite


@contextmanager
def registered(tables: Mapping[str, KernelTable], autograd: Mapping[str, Any]) -> Iterator[None]:
    """Register the operators of ``tables`` under the MPS key (or its backend's), ``autograd`` kernels above it."""
    libraries: list[torch.library.Library] = []

    def library(namespace: str, key: str) -> torch.library.Library:
        opened = torch.library.Library(namespace, "IMPL", key)
        libraries.append(opened)
        return opened

    try:
        # Is the backend in this process? Without ``empty`` no tensor could be made on it.
        if not has_kernel("aten::empty.memory_format", tables["aten"].backend.key):
            for table in {id(t): t for t in tables.values()}.values():
                _register_table(table, library)
        if autograd:
            above = library("aten", f"Autograd{tables['aten'].backend.key}")
            for name, function in autograd.items():
                if torch._C._dispatch_has_kernel(name):
                    above.impl(name.removeprefix("aten::"), function)
        yield
    finally:
        for opened in reversed(libraries):
            opened._destroy()


def _register_table(table: KernelTable, library: Any) -> None:
    by_namespace: dict[str, list[str]] = {}
    key = table.backend.key
    for name in _registered(table) | (renames(table).keys() - now_composite(table)):
        namespace, _, operator = name.partition("::")
        by_namespace.setdefault(namespace, []).append(operator)
    for namespace, operators in by_namespace.items():
        target = library(namespace, key)
        for operator in operators:
            full = f"{namespace}::{operator}"
            # torch's Python code registers a few MPS kernels on every build (`torch/_refs/linalg`).
            if is_implicit(full) and not has_kernel(full, key):
                target.impl(operator, _never_called)


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
