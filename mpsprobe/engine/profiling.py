"""A profile: every run of a plan, measured one after the other; and one report of several processes that did so.

Steps of one process resemble each other more than those of another: allocators, kernels chosen at start and memory
layout differ. So the interval of a merged median comes from resampling processes first, then steps within them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby, takewhile
from typing import Any

from mpsprobe.engine.request import Plan, Run
from mpsprobe.engine.session import Measured, Session, throughput
from mpsprobe.engine.statistics import duration_statistics, outliers
from mpsprobe.environment import collect_environment
from mpsprobe.errors import MpsprobeError, WorkloadError
from mpsprobe.protocols import Device, Progress, RunOptions
from mpsprobe.schemas.coverage import RunFailure
from mpsprobe.schemas.profile import MemoryUse, ProfileCell, ProfilePlan, ProfileReport, StepSample, Warmup
from mpsprobe.schemas.run import WorkloadInfo
from mpsprobe.suggestions import first_line, in_short, remedy, type_name

OUT_OF_MEMORY = "no memory left on the device"
PEAKS = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_process_bytes")


def profile(plan: Plan, progress: Progress, turn: int = 0) -> ProfileReport:
    """Measure ``plan``, as the ``turn``-th process that does. Ctrl-C ends it with what there is, if there is something.

    A run that fails does not keep the others back; one that cannot be built as it was asked for raises.
    """
    measured: dict[int, ProfileCell] = {}
    infos: list[WorkloadInfo] = []
    interrupted = False
    for place in _in_turns(plan.runs, turn):
        try:
            measured[place], info, interrupted = _measure(plan, plan.runs[place], progress)
        except KeyboardInterrupt:
            if 0 not in measured:
                raise
            interrupted = True
        else:
            infos += [info] if info is not None else []
        if interrupted:
            break
    # As they were asked for. Without the first of a pair the second would be taken for it by those that merge reports.
    cells = [measured[place] for place in takewhile(measured.__contains__, range(len(plan.runs)))]
    if not infos:
        first = plan.runs[0]
        raise WorkloadError(
            f"'{first.workload.name}' does not fit into the memory of {first.device.name}",
            "Choose a smaller --batch-size, --seq-len or --dtype.",
        )
    # A device of another framework than torch names the versions itself.
    versions = getattr(plan.runs[0].device, "environment", dict)
    return ProfileReport(
        workloads=_common(infos),
        environment=collect_environment().model_copy(update=dict(versions())),
        devices=[device.describe() for device in {run.device.name: run.device for run in plan.runs}.values()],
        plan=_recorded(plan),
        cells=cells,
        complete=not interrupted,
        notes=list(plan.notes),
    )


def _in_turns(runs: Sequence[Run], turn: int) -> Iterator[int]:
    """The places of ``runs`` in the order in which they are measured.

    What is compared, a device and the baseline, is measured one right after the other. Which one is first alternates
    from process to process: a machine that becomes slower meanwhile is not taken for a slower device.
    """
    for _, compared in groupby(range(len(runs)), key=lambda place: (runs[place].workload.name, runs[place].options)):
        pair = list(compared)
        yield from pair if turn % 2 == 0 else pair[::-1]


def _recorded(plan: Plan) -> ProfilePlan:
    """The plan as the report has it: written here, and read by nothing that measures."""
    request, all_options = plan.request, [run.options for run in plan.runs]
    devices = list(dict.fromkeys(run.device.name for run in plan.runs))
    same = {name: getattr(request, name) for name in ("preset", "steps", "warmup", "processes", "clock", "runner")}
    return ProfilePlan(
        workloads=list(dict.fromkeys(run.workload.name for run in plan.runs)),
        phases=list(dict.fromkeys(options.phase for options in all_options)),
        devices=devices,
        batch_sizes=list(dict.fromkeys(options.batch_size for options in all_options)),
        seq_lens=list(dict.fromkeys(options.seq_len for options in all_options)),
        compile=request.compiled,
        baseline=devices[1] if len(devices) > 1 else None,
        probes=[probe.name for probe in plan.probes],
        **same,
    )


def _measure(plan: Plan, run: Run, progress: Progress) -> tuple[ProfileCell, WorkloadInfo | None, bool]:
    """The cell, what was built if it was, and whether Ctrl-C came."""
    device, options, workload, compiled = run.device, run.options, run.workload, plan.request.compiled
    progress.start(1, f"building {workload.name}")
    try:
        if run.runner is None:
            steps = device.open(workload, options, compiled=compiled)
        else:
            steps = run.runner.open(workload, options, device, compiled=compiled)
    except (MpsprobeError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if not device.is_out_of_memory(error):
            why = f"'{workload.name}' cannot be built on {device.name}: {in_short(error)}"
            raise WorkloadError(why, remedy(error)) from error
        return _cell(device, workload.name, options, Measured(error=error, phase="build")), None, False
    try:
        measured = Session(device, plan.probes).measure(steps, plan.request, progress)
        return _cell(device, steps.info.name, steps.info, measured), steps.info, measured.interrupted
    finally:
        steps.close()


def _common(infos: list[WorkloadInfo]) -> list[WorkloadInfo]:
    """Each workload as it was built, once for each phase; sizes that differ between its cells are left to the cells."""
    groups: dict[tuple[str, str], list[WorkloadInfo]] = {}
    for info in infos:
        groups.setdefault((info.name, info.phase), []).append(info)
    common = []
    for group in groups.values():
        differing = [size for size in ("batch_size", "seq_len") if len({getattr(info, size) for info in group}) > 1]
        notes = list(dict.fromkeys(note for info in group for note in info.notes))
        common.append(group[0].model_copy(update={**dict.fromkeys(differing), "notes": notes}))
    return common


def _cell(device: Device, workload: str, ran: RunOptions | WorkloadInfo, measured: Measured) -> ProfileCell:
    """Whatever was measured of ``ran``: what was asked for, where it could not be built."""
    info = ran if isinstance(ran, WorkloadInfo) else None
    failure = None
    if measured.error is not None:
        text = OUT_OF_MEMORY if device.is_out_of_memory(measured.error) else first_line(measured.error)
        failure = RunFailure(phase=measured.phase, error=type_name(measured.error), message=text)
    warmup = Warmup(durations_ns=measured.warmup_ns, stable=measured.stable, rule=measured.rule)
    same = {field: getattr(ran, field) for field in ("phase", "batch_size", "seq_len", "dtype", "autocast")}
    return ProfileCell(
        workload=workload,
        device=device.name,
        first_call_ns=[] if measured.first_call_ns is None else [measured.first_call_ns],
        warmup=warmup if info is not None else None,
        unavailable=measured.unavailable,
        notes=measured.notes,
        failure=failure,
        **same,
        **timed([measured.durations_ns], {name: [spent] for name, spent in measured.phases_ns.items()}, info),
        **measured.found,
    )


def merge(reports: Sequence[ProfileReport]) -> ProfileReport:
    """The configurations of ``reports``, one for each process, in the order of the first; at least one report."""
    first = reports[0]
    if len(reports) == 1:
        return first
    most = max(len(report.cells) for report in reports)  # an interrupted one has fewer
    cells = [_merged([report.cells[i] for report in reports if i < len(report.cells)], first) for i in range(most)]
    complete = all(report.complete for report in reports)
    notes = list(dict.fromkeys(note for report in reports for note in report.notes))
    return first.model_copy(update={"cells": cells, "complete": complete, "notes": notes})


def _merged(cells: Sequence[ProfileCell], report: ProfileReport) -> ProfileCell:
    first = cells[0]
    info = report.workload_of(first).model_copy(update={"batch_size": first.batch_size, "seq_len": first.seq_len})
    names = dict.fromkeys(name for cell in cells for name in cell.phase_samples_ns)
    phases = {name: [cell.phase_samples_ns.get(name, []) for cell in cells] for name in names}
    notes = list(dict.fromkeys(note for cell in cells for note in cell.notes))
    if first.operators or first.trace is not None:
        notes.append(f"operators, modules and trace are those of the first of {len(cells)} processes")
    return first.model_copy(
        update={
            **timed([[step.duration_ns for step in cell.steps] for cell in cells], phases, info),
            "first_call_ns": [spent for cell in cells for spent in cell.first_call_ns],
            "warmup": next((c.warmup for c in cells if c.warmup is not None and not c.warmup.stable), first.warmup),
            "memory": _memory([cell.memory for cell in cells if cell.memory is not None]),
            "readings": [
                reading.model_copy(update={"process": process})
                for process, cell in enumerate(cells)
                for reading in cell.readings
            ],
            "unavailable": list(
                {(reason.probe, reason.reason): reason for cell in cells for reason in cell.unavailable}.values()
            ),
            "notes": notes,
            "failure": next((cell.failure for cell in cells if cell.failure is not None), None),
        }
    )


def timed(
    steps_ns: Sequence[Sequence[int]], phases_ns: Mapping[str, Sequence[Sequence[int]]], info: WorkloadInfo | None
) -> dict[str, Any]:
    """The fields of a cell that timed steps and phases give, process by process; ``info`` is what was built."""
    step = duration_statistics(*steps_ns)
    phases = {name: duration_statistics(*samples) for name, samples in phases_ns.items()}
    return {
        "steps": [
            StepSample(duration_ns=duration, process=process, outlier=mark)
            for process, spent in enumerate(steps_ns)
            for duration, mark in zip(spent, outliers(spent), strict=True)
        ],
        "step": step,
        "phases": {name: phase for name, phase in phases.items() if phase is not None},
        "phase_samples_ns": {name: list(chain(*samples)) for name, samples in phases_ns.items()},
        "throughput": throughput(info, step),
    }


def _memory(uses: Sequence[MemoryUse]) -> MemoryUse | None:
    """That of the first process, with the largest peaks of all."""
    if not uses:
        return None
    peaks = {name: [peak for use in uses if (peak := getattr(use, name)) is not None] for name in PEAKS}
    return uses[0].model_copy(update={name: max(values, default=None) for name, values in peaks.items()})
