"""Copies: ``copy_`` (``aten/src/ATen/native/Copy.cpp``) calls ``mps_copy_`` when either side is on MPS.

It is a composite kernel that branches on the device type; ``judging/registration.py`` has what that means for its
verdict, on backends that it names and on others.
"""

from __future__ import annotations

from typing import Any

from mpsprobe_coverage.knowledge.calls.spec import has_no_data
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Plan, Route


def routes(table: KernelTable) -> list[Route]:
    """One, in every release and on every backend."""
    del table
    return [Route("aten::copy_", _copy)]


def _copy(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if has_no_data(args[0]):
        return dispatch.leaf(plan, args, kwargs)
    values = dispatch.known_or_assumed(args[1], plan.name, "zeros", fill=0)
    dispatch.record_transfer(args[1])
    return args[0].copy_(values)
