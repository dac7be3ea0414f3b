"""The timed steps of a cell as a time line: first call, warm-up and steps one after the other, outliers marked.

They ran without a profiler, so only their lengths are known. The phases follow as their medians.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from mpsprobe_exporters.traces.counters import Curve
from mpsprobe_exporters.traces.dialects import TIMED_STEP
from mpsprobe_exporters.traces.encoding import LONGEST_NS, text, thousandths
from mpsprobe_exporters.traces.layout import SEPARATOR

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileCell
    from mpsprobe_exporters.traces.layout import Layout

MADE = "made of the steps' lengths; nothing in them was profiled"


class Slice(NamedTuple):
    """One length on a row, in ns."""

    category: str
    name: str
    begin: int
    duration: int
    outlier: bool = False


class Timed(NamedTuple):
    """The rows by name, when the first step begins, and when the last one ends."""

    rows: dict[str, list[Slice]]
    first_ns: int
    end_ns: int


def timed(cell: ProfileCell) -> Timed | None:
    """The rows of ``cell``, a process each; ``None`` if no step was timed."""
    if not cell.steps:
        return None
    rows: dict[str, list[Slice]] = {}
    processes = sorted({step.process for step in cell.steps})
    several = len(processes) > 1
    first_ns, end_ns = None, 0
    for process in processes:
        row: list[Slice] = []
        at = 0
        before = cell.first_call_ns[process : process + 1]
        warming = cell.warmup.durations_ns if cell.warmup is not None and process == processes[0] else []
        for name, durations in (("first call", before), ("warm-up", warming)):
            for spent in durations:
                at = _add(row, Slice("other", name, at, max(spent, 0)))
        first_ns = at if first_ns is None else first_ns
        for index, step in enumerate(one for one in cell.steps if one.process == process):
            at = _add(row, Slice(TIMED_STEP, f"step {index}", at, step.duration_ns, step.outlier))
        rows[f"steps of process {process}" if several else "steps"] = row
        end_ns = max(end_ns, at)
    if cell.phases:
        row, at = [], first_ns or 0
        for name, phase in cell.phases.items():
            at = _add(row, Slice("phase_median", name, at, max(round(phase.median_ns), 0)))
        rows["phases, medians"] = row
    return Timed(rows, first_ns or 0, end_ns)


def lines(found: Timed, process: int, layout: Layout) -> Iterator[str]:
    """The rows in ``process``, with a mark where an outlier begins; each line behind a separator."""
    for name, slices in found.rows.items():
        place = layout.row(process, name).place
        yield from layout.taken()
        for one in slices:
            category = f'"cat":{text(one.category)}'
            args = ',"args":{"outlier":"yes"}' if one.outlier else ""
            ts = f'"ts":{thousandths(min(one.begin, LONGEST_NS))}'
            spent = thousandths(min(one.duration, LONGEST_NS))
            yield f'{SEPARATOR}{{"ph":"X",{category},"name":{text(one.name)},{place},{ts},"dur":{spent}{args}}}'
            if one.outlier:
                yield f'{SEPARATOR}{{"ph":"i","s":"t","cat":"outlier","name":"outlier",{place},{ts}}}'


def as_curves(found: Timed, curves: list[Curve]) -> list[Curve]:
    """``curves``, whose times count from the first timed step, on the time line of ``found``."""
    return [Curve(one.name, [at + found.first_ns for at in one.times_ns], one.values) for one in curves]


def _add(row: list[Slice], one: Slice) -> int:
    row.append(one)
    return one.begin + one.duration
