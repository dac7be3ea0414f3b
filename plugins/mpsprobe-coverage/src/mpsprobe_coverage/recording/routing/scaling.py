"""``GradScaler``: its check for infinities finds none where the gradients have no values.

The scaler reads ``found_inf`` to decide whether the optimizer steps. With gradients that have no values
the answer is not known; a step that is skipped would hide the optimizer from the report.
"""

from __future__ import annotations

from typing import Any

from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Plan, Route


def routes(table: KernelTable) -> list[Route]:
    """One, in every release."""
    del table
    return [Route("aten::_amp_foreach_non_finite_check_and_unscale_", _check)]


def _check(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    found_inf = args[1]
    known = dispatch.known_values(found_inf)
    before = None if known is None else known.clone()  # what lies in the memory itself is forgotten by the call
    result = dispatch.leaf(plan, args, kwargs)
    if before is not None and dispatch.known_values(found_inf) is None:
        found_inf.shadow = before
        dispatch.assumed(plan.name, "no gradient is infinite or NaN")
    return result
