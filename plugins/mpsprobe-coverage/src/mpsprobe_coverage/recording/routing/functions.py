"""Routes that a plugin brings for its backend: plain functions, written in torch operators.

C++ that asks a tensor for its device type gets ``meta`` here and goes the way of a device that it does not name, which
is right for most backends in most places. Where it is not, only the plugin can know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Route, composite_route


def routes(table: KernelTable) -> list[Route]:
    """Those of the plugin for the release of ``table``."""
    return [composite_route(name, _route(function)) for name, function in table.family.routes(table.release).items()]


def _route(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(dispatch: Dispatch, *args: Any, **kwargs: Any) -> Any:
        del dispatch
        return function(*args, **kwargs)

    return run
