"""The target release's registrations, in the dispatcher of the torch that is installed here.

With them the dispatcher chooses as it would on a Mac: ``linear`` arrives whole in the releases that
register it, and as ``t`` and ``addmm`` in those that do not. Only operators with a composite kernel above
autograd need it: of all others the dispatch mode takes every call before a kernel of a backend is looked for.
Registrations are process-wide, so they are undone when the device closes. On a build that has the backend
nothing is registered: the real kernels are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from mpsprobe_coverage.knowledge.calls.keys import has_kernel, is_implicit
from mpsprobe_coverage.knowledge.judging.renames import renames
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.missing_derivatives import now_composite


@contextmanager
def registered(tables: Mapping[str, KernelTable], autograd: Mapping[str, Any]) -> Iterator[None]:
    """Register the operators of ``tables`` under their MPS keys, and ``autograd`` kernels under AutogradMPS.

    Tables of another backend have keys of their own.

    Args:
        tables: namespace → table; operators that the installed torch does not have are left out.
        autograd: operator name → Python function that takes the operator's place above autograd.
    """
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
    for name in (table.native | table.fallback | table.error | renames(table).keys()) - now_composite(table):
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
