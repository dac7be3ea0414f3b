"""A route: what C++ on a Mac does with an operator where it asks for the device type.

The virtual device's tensors carry MPS dispatch keys, but C++ ``device()`` says ``meta``. Code that
branches on the device type therefore goes the wrong way, and only such code needs a route. Each says
where the branch is and how that was established.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from mpsprobe_coverage.kernels.table import KernelTable

if TYPE_CHECKING:
    from mpsprobe_coverage.device.interception import Interception
    from mpsprobe_coverage.device.plan import Plan

Run = Callable[["Interception", "Plan", tuple[Any, ...], dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Route:
    """How one operator goes on.

    Attributes:
        operator: its name, ``aten::convolution``.
        run: called below autograd with (interception, plan, args, kwargs); returns the operator's result.
        above_autograd: called in the operator's place at the AutogradMPS key, with its own arguments, for
            composite operators whose pieces have derivatives of their own. It gets the interception first.
        only_without_kernel: leave the operator alone in releases that register a kernel for it.
    """

    operator: str
    run: Run
    above_autograd: Callable[..., Any] | None = None
    only_without_kernel: bool = False


def composite_route(operator: str, function: Callable[..., Any]) -> Route:
    """A route for an operator that is composite above autograd.

    ``function(interception, *args, **kwargs)`` is written in torch operators. In inference mode there
    is no autograd key and the call arrives at the dispatch mode instead: the same function runs there.
    """

    def run(interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        del plan
        with interception:
            return function(interception, *args, **kwargs)

    return Route(operator, run, above_autograd=function)


def at_least(table: KernelTable, version: str) -> bool:
    """Whether the table's release is ``version`` or newer."""
    return Version(table.release) >= Version(version)
