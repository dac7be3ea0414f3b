"""Every place where the virtual device follows C++ that asks for the device type, or for subclasses of tensors."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from mpsprobe_coverage.knowledge.kernels.table import MPS, KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Route
from mpsprobe_coverage.recording.routing import (
    accumulation,
    attention,
    branches,
    convolution,
    copies,
    functions,
    normalisation,
    recurrent,
    scaling,
    subclasses,
)
from mpsprobe_coverage.recording.routing import older_releases as older
from mpsprobe_coverage.recording.routing import unsupported as hidden

_EVERYWHERE = (copies, scaling, functions)
# What is known of a backend beyond that, by its dispatch key.
_KNOWN: Mapping[str, tuple[Any, ...]] = {
    MPS: (accumulation, attention, convolution, recurrent, normalisation, branches, older, subclasses, hidden),
}


def routes_for(table: KernelTable) -> dict[str, Route]:
    """The routes that hold for the release of ``table``, by operator name."""
    modules = (*_KNOWN.get(table.backend.key, ()), *_EVERYWHERE)
    return {route.operator: route for module in modules for route in module.routes(table)}


def autograd_routes(routes: Mapping[str, Route], dispatch: Dispatch) -> dict[str, Any]:
    """Python kernels for the AutogradMPS key (or that of another backend), by operator name."""
    return {
        name: functools.partial(route.above_autograd, dispatch)
        for name, route in routes.items()
        if route.above_autograd is not None
    }
