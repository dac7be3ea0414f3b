"""What holds on backends other than MPS: copies, and the routes that a plugin brings.

C++ that asks a tensor for its device type gets ``meta`` here and goes the way of a device that it does not name, which
is right for most backends in most places. Where it is not, only the plugin can know.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mpsprobe_coverage.device.routing.route import Route
from mpsprobe_coverage.device.tensor import VirtualTensor, spec_of
from mpsprobe_coverage.kernels.table import COMPOSITE, KernelTable

if TYPE_CHECKING:
    from mpsprobe_coverage.device.interception import Interception
    from mpsprobe_coverage.device.plan import Plan

# `is_supported_device` in `aten/src/ATen/native/Copy.cpp`: for these `copy_` computes, all others get `_copy_from`.
COPIED_BY_TYPE = frozenset({"cpu", "cuda", "hip", "vulkan", "metal", "mps", "xpu"})
COPY, COPY_FROM = "aten::copy_", "aten::_copy_from"


def other_copies(table: KernelTable) -> tuple[str, str, str | None]:
    """Operator, verdict and reason of a copy to, from or on the backend of ``table``."""
    verdict = table.verdict(COPY)
    if verdict != COMPOSITE:
        return COPY, verdict, None
    if table.backend.device in COPIED_BY_TYPE:
        return COPY, "native", None
    verdict = table.verdict(COPY_FROM)
    if verdict == "native":
        return COPY_FROM, verdict, None
    return COPY_FROM, verdict, "copy_ calls it on devices that ATen/native/Copy.cpp does not name"


def routes(table: KernelTable) -> dict[str, Route]:
    """``copy_``, and the routes of the plugin, by operator."""
    assert table.family is not None
    found = {COPY: Route(COPY, _copy)}
    for operator, function in table.family.routes(table.release).items():
        found[operator] = Route(
            operator, functools.partial(_below, function), above_autograd=functools.partial(_above, function)
        )
    return found


def _below(
    function: Callable[..., Any], interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Below autograd, and in inference mode: what the function calls is judged."""
    del plan
    with interception:
        return function(*args, **kwargs)


def _above(function: Callable[..., Any], interception: Interception, *args: Any, **kwargs: Any) -> Any:
    """At the Autograd key, where each operator that the function calls has its own derivative."""
    del interception
    return function(*args, **kwargs)


def _copy(interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if type(args[0]) is VirtualTensor:
        name, verdict, reason = other_copies(interception.tables["aten"])
        copying = dataclasses.replace(plan, name=name, verdict=verdict, reason=reason)
        return interception.leaf(copying, args, kwargs)
    values = interception.values.known_or_assumed(args[1], plan.name, "zeros", fill=0)
    interception.record_transfer(spec_of(args[1]))
    return args[0].copy_(values)
