"""Which operators of a profile fall back on MPS: the scanner's prediction, next to what was measured.

It runs when all steps are measured: the virtual device changes the dispatcher of this process for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

from mpsprobe.engine.request import Run
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Progress, Scanner
from mpsprobe.schemas.coverage import CoverageReport, OperatorFinding
from mpsprobe.schemas.profile import FallbackCost, ProfileCell, ProfileReport
from mpsprobe.suggestions import in_short

LEAVES = ("missing", "fallback", "unsupported")  # the verdicts of operators that do not run on MPS
RELEASE = "installed"
NOT_PREDICTED = "which operators fall back on MPS was not predicted: {reason}"
OTHER_SIZES = "'{workload}' ran with other sizes than it was asked for"
STOPPED = "the prediction of fallbacks knows the operators before it stopped: {reason}"
_Key = tuple[str, str, int | None, int | None]  # workload, phase, batch size and sequence length


def predict(
    report: ProfileReport, runs: Sequence[Run], scanner_for: Callable[[str], Scanner], progress: Progress
) -> ProfileReport:
    """``report``, whose cells come from ``runs``, with its predicted fallbacks; equal runs are scanned once.

    A prediction that fails is a note: what was measured stays.

    Args:
        scanner_for: the scanner that reads workloads of a framework.
    """
    by_key: dict[_Key, Run] = {}
    for one in runs:
        by_key[one.workload.name, one.options.phase, one.options.batch_size, one.options.seq_len] = one
    known: dict[_Key, CoverageReport | str] = {}
    cells, notes, table, backend = [], list(report.notes), report.predicted_with, report.backend
    progress.start(None, "predicting fallbacks")
    try:
        for cell in report.cells:
            key = _key(cell, by_key)
            if key not in known:
                run = by_key.get(key)
                known[key] = _scanned(run, scanner_for, progress) if run else OTHER_SIZES.format(workload=cell.workload)
            found = known[key]
            if isinstance(found, str):
                notes.append(NOT_PREDICTED.format(reason=found))
                cells.append(cell)
                continue
            table, backend = table or found.target.table, found.target.backend
            if found.failure is not None and cell.failure is None:
                notes.append(STOPPED.format(reason=f"{found.failure.error}: {found.failure.message}"))
            cells.append(_with_costs(cell, found.operators))
    finally:
        progress.stop()
    found_so = {"cells": cells, "notes": list(dict.fromkeys(notes)), "predicted_with": table, "backend": backend}
    return report.model_copy(update=found_so)


def _key(cell: ProfileCell, runs: Mapping[_Key, Run]) -> _Key:
    """That of the run that made ``cell``: a size that was not asked for is the workload's own, which the cell has."""
    sizes = product((cell.batch_size, None), (cell.seq_len, None))
    keys = [(cell.workload, cell.phase, batch_size, seq_len) for batch_size, seq_len in sizes]
    return next((key for key in keys if key in runs), keys[0])


def _scanned(run: Run, scanner_for: Callable[[str], Scanner], progress: Progress) -> CoverageReport | str:
    try:
        scanner = scanner_for(run.workload.framework)
        releases = scanner.releases(RELEASE) if hasattr(scanner, "releases") else [RELEASE]
        found = scanner.scan(run.workload, run.options, releases, progress)
    except MpsprobeError as error:
        return f"{error.message}. {error.hint}" if error.hint else error.message
    except Exception as error:  # noqa: BLE001 - a plugin's code; the measurement must not be lost with it
        return in_short(error)
    if not isinstance(found, CoverageReport):
        return f"the scanner returned a report of kind '{found.kind}'"
    return found


def _with_costs(cell: ProfileCell, operators: Sequence[OperatorFinding]) -> ProfileCell:
    """What was observed stays as it is; the prediction adds the rest, and what only it knows."""
    observed = {cost.operator: cost for cost in cell.fallbacks if cost.method == "observed"}
    leaving: dict[str, list[OperatorFinding]] = {}  # the worst first
    for one in operators:
        if one.verdict in LEAVES:
            leaving.setdefault(one.operator, []).append(one)
    costs = [
        cost.model_copy(update={"native_since": leaving[name][0].native_since}) if name in leaving else cost
        for name, cost in observed.items()
    ]
    costs += [
        FallbackCost(
            operator=name,
            calls=sum(one.calls for one in group),
            method="predicted",
            verdict=group[0].verdict,
            bytes=sum(map(_copied, group)),
            native_since=group[0].native_since,
        )
        for name, group in leaving.items()
        if name not in observed
    ]
    return cell.model_copy(update={"fallbacks": costs})


def _copied(one: OperatorFinding) -> int:
    """Bytes: what is known to be copied, or all that the operator reads and makes."""
    known = one.transfers
    return known.to_cpu_bytes + known.to_gpu_bytes if known is not None else one.input_bytes + one.output_bytes
