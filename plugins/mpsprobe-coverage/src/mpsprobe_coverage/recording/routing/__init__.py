"""Every place where the virtual device follows C++ that asks for the device type, or for subclasses of tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from mpsprobe_coverage.knowledge.kernels.table import MPS, KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Route, composite_route
from mpsprobe_coverage.recording.routing import compiled_with_mps, device_type, other_releases


def routes_for(table: KernelTable) -> dict[str, Route]:
    routes: list[Route] = []
    if table.backend.key == MPS:
        routes += [*device_type.routes_of_mps(table), *compiled_with_mps.routes(table), *other_releases.routes(table)]
    routes += device_type.routes_of_any_backend()
    of_plugin = table.family.routes(table.release)
    routes += [composite_route(name, _of_plugin(function)) for name, function in of_plugin.items()]
    return {route.operator: route for route in routes}


# C++ that asks a tensor for its device type gets ``meta`` and goes the way of a device that it does not name, which is
# right for most backends in most places. Where it is not, only the plugin of the backend can know.
def _of_plugin(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(_: Dispatch, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return run


def autograd_routes(routes: Mapping[str, Route], dispatch: Dispatch) -> dict[str, Any]:
    return {
        name: functools.partial(route.above_autograd, dispatch)
        for name, route in routes.items()
        if route.above_autograd is not None
    }
