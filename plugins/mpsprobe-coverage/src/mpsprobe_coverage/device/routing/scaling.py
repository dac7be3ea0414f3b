"""``GradScaler``: its check for infinities finds none.

The scaler reads ``found_inf`` to decide whether the optimizer steps. With gradients that have no values
the answer is not known; a step that is skipped would hide the optimizer from the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpsprobe_coverage.device.routing.route import Route
from mpsprobe_coverage.kernels.table import KernelTable

if TYPE_CHECKING:
    from mpsprobe_coverage.device.interception import Interception
    from mpsprobe_coverage.device.plan import Plan


def routes(table: KernelTable) -> list[Route]:
    """One, in every release."""
    del table
    return [Route("aten::_amp_foreach_non_finite_check_and_unscale_", _check)]


def _check(interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    found = args[1]
    before = getattr(found, "shadow", None)
    result = interception.leaf(plan, args, kwargs)
    if before is not None:
        found.shadow = before
        interception.recorder.assumed(plan.name, "no gradient is infinite or NaN", interception.origin())
    return result
