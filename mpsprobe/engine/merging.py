"""One report of the reports of several processes that measured the same plan.

Steps of one process resemble each other more than those of another: allocators, kernels chosen at start and memory
layout differ. So the interval of a merged median comes from resampling processes first, then steps within them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from mpsprobe.engine.session import throughput
from mpsprobe.engine.statistics import duration_statistics, outliers
from mpsprobe.schemas.profile import MemoryUse, ProfileCell, ProfileReport, StepSample
from mpsprobe.schemas.run import WorkloadInfo

PEAKS = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_process_bytes")


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
            "unavailable": list({(one.probe, one.reason): one for cell in cells for one in cell.unavailable}.values()),
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
        "phases": {name: found for name, found in phases.items() if found is not None},
        "phase_samples_ns": {name: list(chain(*samples)) for name, samples in phases_ns.items()},
        "throughput": throughput(info, step),
    }


def _memory(uses: Sequence[MemoryUse]) -> MemoryUse | None:
    """That of the first process, with the largest peaks of all."""
    if not uses:
        return None
    peaks = {name: [peak for use in uses if (peak := getattr(use, name)) is not None] for name in PEAKS}
    return uses[0].model_copy(update={name: max(values, default=None) for name, values in peaks.items()})
