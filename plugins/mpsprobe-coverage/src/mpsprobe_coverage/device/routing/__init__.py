"""Every place where the virtual device follows C++ that asks for the device type."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from mpsprobe_coverage.device.routing import (
    accumulation,
    attention,
    branches,
    convolution,
    copies,
    hidden,
    normalisation,
    older,
    others,
    recurrent,
)
from mpsprobe_coverage.device.routing.route import Route
from mpsprobe_coverage.kernels.table import KernelTable

if TYPE_CHECKING:
    from mpsprobe_coverage.device.interception import Interception

_MODULES = (accumulation, attention, convolution, recurrent, normalisation, branches, older, hidden, copies)
# Operator → the releases from which on a route refuses other calls of it than before.
REFUSALS_CHANGE: dict[str, tuple[str, ...]] = {**convolution.REFUSALS_CHANGE, **recurrent.REFUSALS_CHANGE}


def routes_for(table: KernelTable) -> dict[str, Route]:
    """The routes that hold for the release of ``table``, by operator name."""
    if not table.is_mps:
        return others.routes(table)
    return {route.operator: route for module in _MODULES for route in module.routes(table)}


def autograd_routes(interception: Interception) -> dict[str, Any]:
    """Python kernels for the AutogradMPS key (or that of another backend), by operator name."""
    return {
        route.operator: functools.partial(route.above_autograd, interception)
        for route in routes_for(interception.tables["aten"]).values()
        if route.above_autograd is not None
    }


__all__ = ["REFUSALS_CHANGE", "Route", "autograd_routes", "routes_for"]
