"""Which operators of a profile fall back on MPS, and how long its chip should take: what the scanner predicts.

It runs when all steps are measured: the virtual device changes the dispatcher of this process for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from mpsprobe.answers.lookup import find, keep
from mpsprobe.answers.question import Question
from mpsprobe.engine.chip_times import chip_times, chips
from mpsprobe.engine.request import Run
from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe.protocols import Progress, RunOptions, Scanner
from mpsprobe.schemas.coverage import CoverageReport, OperatorFinding
from mpsprobe.schemas.profile import FallbackCost, ProfileCell, ProfileReport
from mpsprobe.suggestions import in_short

LEAVES = ("missing", "fallback", "unsupported")  # the verdicts of operators that do not run on MPS
RELEASE = "installed"
MPS = "mps"
NOT_PREDICTED = "which operators fall back on MPS was not predicted: {reason}"
STOPPED = "the prediction of fallbacks knows the operators before it stopped: {reason}"


def predict(
    report: ProfileReport, runs: Sequence[Run], scanner_for: Callable[[str], Scanner], progress: Progress
) -> ProfileReport:
    """``report`` with what is predicted for ``runs``, of which its cells are in order; what fails is a note."""
    scans: dict[tuple[str, RunOptions], CoverageReport | str] = {}
    of_chips = [name for device in report.devices if device.type == MPS for name in chips(device)]
    cells, notes, table, backend = [], list(report.notes), report.predicted_with, report.backend
    progress.start(None, "predicting fallbacks")
    try:
        for cell, run in zip(report.cells, runs, strict=False):
            key = run.workload.name, run.options
            if key not in scans:
                scans[key] = _scanned(run, of_chips, scanner_for, progress)
            scan = scans[key]
            if isinstance(scan, str):
                notes.append(NOT_PREDICTED.format(reason=scan))
                cells.append(cell)
                continue
            table, backend = table or scan.target.table, scan.target.backend
            if scan.failure is not None and cell.failure is None:
                notes.append(STOPPED.format(reason=f"{scan.failure.error}: {scan.failure.message}"))
            on_chip = chip_times(cell, scan) if cell.device == MPS else None
            cells.append(_with_costs(cell, scan.operators).model_copy(update={"chip": on_chip}))
    finally:
        progress.stop()
    update = {"cells": cells, "notes": list(dict.fromkeys(notes)), "predicted_with": table, "backend": backend}
    return report.model_copy(update=update)


def _scanned(
    run: Run, of_chips: Sequence[str], scanner_for: Callable[[str], Scanner], progress: Progress
) -> CoverageReport | str:
    """For the first of ``of_chips`` that is known, or for any Mac."""
    for chip in (*of_chips, None):
        options = replace(run.options, chip=chip) if chip else run.options
        try:
            question = Question("coverage", run.workload.name, asdict(options), cached=None if run.named else False)
            answer = find(question) if run.named else None
            report = answer.report() if answer is not None else None
            if report is None:
                scanner = scanner_for(run.workload.framework)
                releases = scanner.releases(RELEASE) if hasattr(scanner, "releases") else [RELEASE]
                report = scanner.scan(run.workload, options, releases, progress)
                keep(question, report)
        except MpsprobeError as error:
            if chip is None or not isinstance(error, UsageError):
                return f"{error.message}. {error.hint}" if error.hint else error.message
        except Exception as error:  # noqa: BLE001 - a plugin's code; the measurement must not be lost with it
            return in_short(error)
        else:
            wrong = f"the scanner returned a report of kind '{report.kind}'"
            return report if isinstance(report, CoverageReport) else wrong
    raise AssertionError("any Mac is asked about last")


def _with_costs(cell: ProfileCell, operators: Sequence[OperatorFinding]) -> ProfileCell:
    """What was observed stays as it is; the prediction adds the rest, and what only it knows."""
    observed = {cost.operator: cost for cost in cell.fallbacks if cost.method == "observed"}
    leaving: dict[str, list[OperatorFinding]] = {}  # the worst first
    for finding in operators:
        if finding.verdict in LEAVES:
            leaving.setdefault(finding.operator, []).append(finding)
    costs = [
        cost.model_copy(update={"native_since": leaving[name][0].native_since}) if name in leaving else cost
        for name, cost in observed.items()
    ]
    costs += [
        FallbackCost(
            operator=name,
            calls=sum(finding.calls for finding in findings),
            method="predicted",
            verdict=findings[0].verdict,
            bytes=sum(map(_copied_bytes, findings)),
            native_since=findings[0].native_since,
        )
        for name, findings in leaving.items()
        if name not in observed
    ]
    return cell.model_copy(update={"fallbacks": costs})


def _copied_bytes(finding: OperatorFinding) -> int:
    """What is known to be copied, or all that the operator reads and makes."""
    copies = finding.transfers
    return copies.to_cpu_bytes + copies.to_gpu_bytes if copies else finding.input_bytes + finding.output_bytes
