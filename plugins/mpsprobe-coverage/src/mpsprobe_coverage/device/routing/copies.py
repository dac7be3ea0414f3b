"""Copies: ``copy_`` (``aten/src/ATen/native/Copy.cpp``) calls ``mps_copy_`` when either side is on MPS.

It is a composite kernel that branches on the device type, so no registration says that it is native;
it is, in every release that has MPS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpsprobe_coverage.device.routing.route import Route
from mpsprobe_coverage.device.tensor import VirtualTensor, spec_of
from mpsprobe_coverage.kernels.table import KernelTable

if TYPE_CHECKING:
    from mpsprobe_coverage.device.interception import Interception
    from mpsprobe_coverage.device.plan import Plan

ALWAYS_NATIVE = frozenset({"aten::copy_"})


def routes(table: KernelTable) -> list[Route]:
    """One, in every release."""
    del table
    return [Route("aten::copy_", _copy)]


def _copy(interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if type(args[0]) is VirtualTensor:
        return interception.leaf(plan, args, kwargs, verdict="native")
    values = interception.values.known_or_assumed(args[1], plan.name, "zeros", fill=0)
    interception.record_transfer(spec_of(args[1]))
    return args[0].copy_(values)
