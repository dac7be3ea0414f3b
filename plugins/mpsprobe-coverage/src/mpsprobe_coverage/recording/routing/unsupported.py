"""Operators that had kernels of their own, none for MPS, in a release, and are composite in the installed torch.

``prelu`` and ``linalg_solve`` in 1.12 or ``upsample_nearest3d.vec`` up to 1.13: on a Mac the call ended there, with
"could not be run with arguments from the 'MPS' backend". Here the dispatcher would take them apart above autograd and
judge pieces that the release does not have. So the call is recorded as what it was, missing, and its pieces only give
shapes and a derivative.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from torch._C import DispatchKey

from mpsprobe_coverage.knowledge.calls.keys import is_implicit, overload_named
from mpsprobe_coverage.knowledge.calls.spec import specs_in
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Route, composite_route

_SPECIAL = ("to_sparse", "get_gradients")  # their results are no strided tensors
_IMPLICIT = DispatchKey.CompositeImplicitAutograd


def routes(table: KernelTable) -> list[Route]:
    """One for each such operator of the release of ``table``."""
    return [_route(name) for name in _hidden(table.missing)]


@cache
def _hidden(missing: frozenset[str]) -> tuple[str, ...]:
    return tuple(
        name
        for name in sorted(missing)
        if name.startswith("aten::") and is_implicit(name) and not name.removeprefix("aten::").startswith(_SPECIAL)
    )


def _route(name: str) -> Route:
    func = overload_named(name)

    def run(dispatch: Dispatch, *args: Any, **kwargs: Any) -> Any:
        with dispatch.muted():
            result = func._op_dk(_IMPLICIT, *args, **kwargs)
        dispatch.record(dispatch.plan_of(func), args, kwargs, specs_in((args, kwargs)), specs_in(result))
        return result

    return composite_route(name, run)
