"""A profile as rows: one for each timed step, so that a spreadsheet can draw what it likes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileReport

COLUMNS = (
    "workload",
    "phase",
    "device",
    "batch_size",
    "seq_len",
    "dtype",
    "kind",
    "process",
    "index",
    "duration_ns",
    "outlier",
    "note",
)


def rows(report: ProfileReport) -> Iterable[tuple[object, ...]]:
    """The header, then for each configuration the first call, warm-up, steps, median phases and a failure."""
    yield COLUMNS
    for cell in report.cells:
        sizes = (
            cell.workload,
            cell.phase,
            cell.device,
            _or_empty(cell.batch_size),
            _or_empty(cell.seq_len),
            _or_empty(cell.dtype),
        )
        for process, first in enumerate(cell.first_call_ns):
            yield (*sizes, "first_call", process, 0, first, "", "")
        for index, spent in enumerate(cell.warmup.durations_ns if cell.warmup is not None else []):
            yield (*sizes, "warmup", 0, index, spent, "", "")
        for index, step in enumerate(cell.steps):
            yield (*sizes, "step", step.process, index, step.duration_ns, "yes" if step.outlier else "no", "")
        for name, phase in cell.phases.items():
            yield (*sizes, "phase_median", "", "", round(phase.median_ns), "", name)
        if cell.failure is not None:
            yield (*sizes, "failure", "", "", "", "", f"{cell.failure.error}: {cell.failure.message}")


def _or_empty(value: object) -> object:
    return "" if value is None else value
