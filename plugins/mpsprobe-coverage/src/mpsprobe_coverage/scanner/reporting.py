"""Traces as reports: on one release, and on many."""

from __future__ import annotations

from collections.abc import Sequence

from mpsprobe.environment import collect_environment
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import (
    AdvisoryMatch,
    CoverageReport,
    Environment,
    MatrixCell,
    MatrixReport,
    MemoryPrediction,
    OperatorFinding,
    WorkloadInfo,
)
from mpsprobe_coverage.chips.mac import mac_asked
from mpsprobe_coverage.kernels.releases import since_without_gap
from mpsprobe_coverage.kernels.table import KernelTable
from mpsprobe_coverage.scanner.advisories import advisory_matches
from mpsprobe_coverage.scanner.findings import (
    data_dependence,
    findings,
    first_refused_tensor,
    gradients,
    not_judged,
    summarise,
)
from mpsprobe_coverage.scanner.graphs import run_graphs
from mpsprobe_coverage.scanner.macos import conditions
from mpsprobe_coverage.scanner.memory import prediction
from mpsprobe_coverage.scanner.traces import Trace


def single(
    info: WorkloadInfo, options: RunOptions, trace: Trace, since: str | None, environment: Environment | None = None
) -> CoverageReport:
    """The report on one release; ``since`` is the one from which on all of the workload is native.

    ``environment`` is found out where it is not given, which takes ten milliseconds.
    """
    table, recorder = trace.table, trace.recorder
    operators = findings(recorder, table, since)
    advised = advisory_matches(recorder, table, options.macos, options.chip)
    return CoverageReport(
        method="predicted",
        workload=_noted(_with_gradients(info, [trace]), [(table, operators)]),
        target=table.family.report_target(table, options.macos),
        environment=environment or collect_environment(),
        summary=summarise(operators, trace.parameters_bytes, since, len(advised), run_graphs(recorder, table)),
        operators=operators,
        not_judged=not_judged(recorder),
        data_dependence=data_dependence(recorder),
        macos_conditions=[] if options.macos else conditions(recorder, table),
        first_refused_tensor=first_refused_tensor(recorder),
        advisories=advised,
        memory=memory_of(trace, options),
        failure=trace.failure,
    )


def memory_of(trace: Trace, options: RunOptions) -> MemoryPrediction | None:
    """What the run needs; None where nothing is known of the backend's allocator, or nothing was on the device."""
    if trace.memory is not None:
        return trace.memory
    if trace.table.backend.device != "mps":
        return None
    asked = mac_asked(options)
    return prediction(trace.events, trace.table.release, options.macos, asked, detailed=options.allocations)


def matrix(info: WorkloadInfo, options: RunOptions, traces: list[Trace]) -> MatrixReport:
    """The report on many releases."""
    cells = []
    newest: list[OperatorFinding] = []
    judged = []
    advisories: dict[str, AdvisoryMatch] = {}
    for trace in traces:
        table = trace.table
        advised = {match.id: match for match in advisory_matches(trace.recorder, table, options.macos, options.chip)}
        advisories = {**advisories, **advised}
        newest = findings(trace.recorder, table)
        judged.append((table, newest))
        memory = memory_of(trace, options)
        cells.append(
            MatrixCell(
                target=table.family.report_target(table, options.macos),
                summary=summarise(newest, trace.parameters_bytes, advisories=len(advised)),
                memory=memory.figures() if memory and not trace.failure else None,
                fit=memory.fit if memory else None,
                findings={
                    finding.operator: finding.verdict for finding in reversed(newest) if finding.verdict != "native"
                },
                advisories=list(advised),
                failure=trace.failure,
            )
        )
    native = {cell.target.torch: not cell.findings and cell.failure is None for cell in cells}
    return MatrixReport(
        method="predicted",
        workload=_noted(_with_gradients(info, traces), judged),
        environment=collect_environment(),
        native_since=since_without_gap([*native], native.__getitem__),
        releases=cells,
        operators=newest,
        not_judged=not_judged(traces[-1].recorder),
        data_dependence=data_dependence(traces[-1].recorder),
        advisories=list(advisories.values()),
    )


def _noted(info: WorkloadInfo, judged: Sequence[tuple[KernelTable, list[OperatorFinding]]]) -> WorkloadInfo:
    """``info`` with what the tables say in addition to their native verdicts, each sentence once."""
    notes = dict.fromkeys(info.notes)
    for table, operators in judged:
        notes |= dict.fromkeys(
            table.family.notes(table, [one.operator for one in operators if one.verdict == "native"])
        )
    return info.model_copy(update={"notes": list(notes)})


def _with_gradients(info: WorkloadInfo, traces: Sequence[Trace]) -> WorkloadInfo:
    """With what is to be said about gradients; where that differs, of the newest release that has something to say."""
    said = [(trace.table.release, gradients(trace.recorder, trace.table, trace.notes)) for trace in traces]
    alike = all(notes == said[0][1] for _, notes in said)
    release, notes = next(((release, notes) for release, notes in reversed(said) if notes), ("", []))
    return info.model_copy(
        update={"notes": [*info.notes, *(note if alike else f"torch {release}: {note}" for note in notes)]}
    )
