"""Operators that had kernels of their own, none for MPS, in a release, and are composite in the installed torch.

``prelu`` and ``linalg_solve`` in 1.12 or ``upsample_nearest3d.vec`` up to 1.13: on a Mac the call ended there, with
"could not be run with arguments from the 'MPS' backend". Here the dispatcher would take them apart above autograd and
judge pieces that the release does not have. So the call is recorded as what it was, missing, and its pieces only give
shapes and a derivative.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.device.routing.route import Route, composite_route
from mpsprobe_coverage.device.tensor import spec_of
from mpsprobe_coverage.kernels.table import MISSING, KernelTable

if TYPE_CHECKING:
    from mpsprobe_coverage.device.interception import Interception

_SPECIAL = ("to_sparse", "get_gradients")  # their results are no strided tensors
_IMPLICIT = DispatchKey.CompositeImplicitAutograd


def routes(table: KernelTable) -> list[Route]:
    """One for each such operator of the release of ``table``."""
    return [_route(name) for name in _hidden(table.release, tuple(sorted(_missing(table))))]


def _missing(table: KernelTable) -> list[str]:
    return [name for name in table.operators if name.startswith("aten::") and table.verdict(name) == MISSING]


@cache
def _hidden(release: str, missing: tuple[str, ...]) -> tuple[str, ...]:
    del release
    return tuple(
        name
        for name in missing
        if torch._C._dispatch_has_kernel(name)
        and torch._C._dispatch_has_kernel_for_dispatch_key(name, _IMPLICIT.name)
        and not name.removeprefix("aten::").startswith(_SPECIAL)
    )


def _route(name: str) -> Route:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    func = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def run(interception: Interception, *args: Any, **kwargs: Any) -> Any:
        recorder = interception.recorder
        phase, recorder.phase = recorder.phase, None
        try:
            result = func._op_dk(_IMPLICIT, *args, **kwargs)
        finally:
            recorder.phase = phase
        if phase is not None:
            plan = interception.plan_of(func)
            inputs, outputs = _tensors((args, kwargs)), _tensors(result)
            interception.record(plan.name, plan.verdict, plan.reason, inputs, outputs)
        return result

    return composite_route(name, run)


def _tensors(values: Any) -> tuple[Any, ...]:
    leaves = torch.utils._pytree.tree_leaves(values)
    return tuple(spec_of(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))
