"""Which operators of a profile fall back on MPS: the scanner's prediction, put beside what was measured.

It runs when all steps are measured: the virtual device changes the dispatcher of this process for a while.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpsprobe.engine.profiling import Configuration
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Progress, Scanner
from mpsprobe.schemas.coverage import CoverageReport, OperatorFinding
from mpsprobe.schemas.profile import FallbackCost, ProfileCell, ProfileReport

LEAVES = ("missing", "fallback", "unsupported")  # the verdicts of operators that do not run on MPS
RELEASE = "installed"
NOT_PREDICTED = "which operators fall back on MPS was not predicted: {reason}"

STOPPED = "the prediction of fallbacks knows the operators before it stopped: {reason}"


def predict(
    report: ProfileReport, configurations: Sequence[Configuration], scanner: Scanner, progress: Progress
) -> ProfileReport:
    """``report`` with the predicted fallbacks of its cells, which are those of ``configurations``, in their order.

    A prediction that fails is a note: what was measured stays.
    """
    known: dict[object, CoverageReport | str] = {}
    cells, notes, table = [], list(report.notes), report.predicted_with
    progress.start(None, "predicting fallbacks")
    try:
        for cell, one in zip(report.cells, configurations, strict=False):  # an interrupted report has fewer cells
            key = (one.workload.name, one.options)
            if key not in known:
                known[key] = _scanned(one, scanner, progress)
            found = known[key]
            if isinstance(found, str):
                notes += [found] if found not in notes else []
                cells.append(cell)
            else:
                table = table or found.target.table
                if found.failure is not None:
                    text = STOPPED.format(reason=f"{found.failure.error}: {found.failure.message}")
                    notes += [text] if text not in notes else []
                cells.append(_with_costs(cell, found.operators))
    finally:
        progress.stop()
    return report.model_copy(update={"cells": cells, "notes": notes, "predicted_with": table})


def _scanned(one: Configuration, scanner: Scanner, progress: Progress) -> CoverageReport | str:
    try:
        found = scanner.scan(one.workload, one.options, [RELEASE], progress)
    except MpsprobeError as error:
        return NOT_PREDICTED.format(reason=error.message)
    except Exception as error:  # noqa: BLE001 - a plugin's code; the measurement must not be lost with it
        return NOT_PREDICTED.format(reason=f"{type(error).__name__}: {error}")
    if not isinstance(found, CoverageReport):
        return NOT_PREDICTED.format(reason=f"the scanner returned a report of kind '{found.kind}'")
    return found


def _with_costs(cell: ProfileCell, operators: Sequence[OperatorFinding]) -> ProfileCell:
    """What was observed stays as it is; the prediction adds the rest, and what only it knows."""
    observed = {cost.operator: cost for cost in cell.fallbacks if cost.method == "observed"}
    leaving = {one.operator: one for one in operators if one.verdict in LEAVES}
    costs = [
        cost.model_copy(update={"native_since": leaving[name].native_since}) if name in leaving else cost
        for name, cost in observed.items()
    ]
    costs += [
        FallbackCost(
            operator=one.operator,
            calls=one.calls,
            method="predicted",
            verdict=one.verdict,
            bytes=one.input_bytes + one.output_bytes,
            native_since=one.native_since,
        )
        for name, one in leaving.items()
        if name not in observed
    ]
    return cell.model_copy(update={"fallbacks": costs})
