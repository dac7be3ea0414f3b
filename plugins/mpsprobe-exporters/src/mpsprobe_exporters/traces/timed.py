"""What was measured without a profiler: timed steps one after the other with their outliers, and curves over time.

Only the lengths of the steps are known. The phases follow as their medians.
"""

from __future__ import annotations

import math
from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mpsprobe_exporters.traces.encoding import LONGEST_NS, SEPARATOR, TIMED_STEP, text, thousandths

if TYPE_CHECKING:
    from mpsprobe.schemas import Counter, MemoryCurve, ProfileCell
    from mpsprobe_exporters.traces.layout import Layout

MADE = "made of the steps' lengths; nothing in them was profiled"
CURVES = ("allocated_bytes", "reserved_bytes", "process_bytes")


class Stretch(NamedTuple):
    category: str
    name: str
    begin: int
    duration: int
    outlier: bool = False


class Timed(NamedTuple):
    rows: dict[str, list[Stretch]]  # by name
    first_ns: int  # when the first step begins
    end_ns: int  # when the last one ends


class Curve(NamedTuple):
    name: str
    times_ns: Sequence[int]
    values: Sequence[float]


def timed(cell: ProfileCell) -> Timed | None:
    """The rows of ``cell``, a process each; ``None`` if no step was timed."""
    if not cell.steps:
        return None
    rows: dict[str, list[Stretch]] = {}
    processes = sorted({step.process for step in cell.steps})
    firsts, ends = [], []
    for process in processes:
        warming = cell.warmup.durations_ns if cell.warmup is not None and process == processes[0] else []
        before = [("first call", spent) for spent in cell.first_call_ns[process : process + 1]]
        before += [("warm-up", spent) for spent in warming]
        steps = [step for step in cell.steps if step.process == process]
        row = [Stretch("other", name, 0, max(spent, 0)) for name, spent in before]
        row += [Stretch(TIMED_STEP, f"step {at}", 0, step.duration_ns, step.outlier) for at, step in enumerate(steps)]
        row = rows[f"steps of process {process}" if len(processes) > 1 else "steps"] = _one_after_the_other(row)
        firsts.append(row[len(before)].begin)
        ends.append(row[-1].begin + row[-1].duration)
    if cell.phases:
        medians = ((name, max(round(phase.median_ns), 0)) for name, phase in cell.phases.items())
        row = [Stretch("phase_median", name, 0, spent) for name, spent in medians]
        rows["phases, medians"] = _one_after_the_other(row, firsts[0])
    return Timed(rows, firsts[0], max(0, *ends))


def _one_after_the_other(row: Iterable[Stretch], at: int = 0) -> list[Stretch]:
    placed = []
    for stretch in row:
        placed.append(stretch._replace(begin=at))
        at += stretch.duration
    return placed


def lines(steps: Timed, process: int, layout: Layout) -> Iterator[str]:
    """The rows in ``process``, with a mark where an outlier begins; each line behind a separator."""
    for name, slices in steps.rows.items():
        place = layout.thread(process, name)
        yield from layout.taken()
        for stretch in slices:
            args = ',"args":{"outlier":"yes"}' if stretch.outlier else ""
            ts = f'"ts":{thousandths(min(stretch.begin, LONGEST_NS))}'
            spent = thousandths(min(stretch.duration, LONGEST_NS))
            head = f'{SEPARATOR}{{"ph":"X","cat":{text(stretch.category)},"name":{text(stretch.name)},{place}'
            yield f'{head},{ts},"dur":{spent}{args}}}'
            if stretch.outlier:
                yield f'{SEPARATOR}{{"ph":"i","s":"t","cat":"outlier","name":"outlier",{place},{ts}}}'


def memory(curve: MemoryCurve, first_ns: int = 0) -> list[Curve]:
    """The columns of ``curve`` that have values; its times count from the first timed step, at ``first_ns``."""
    times = [at + first_ns for at in curve.times_ns]
    return [Curve(name, times, values) for name in CURVES if (values := getattr(curve, name))]


def counters(curves: Iterable[Curve | Counter], process: int, base_ns: int) -> Iterator[str]:
    """Counter events, each behind a separator; of two curves of one name the second gets a number."""
    seen: Counts[str] = Counts()
    for curve in curves:
        seen[curve.name] += 1
        name = text(curve.name if seen[curve.name] == 1 else f"{curve.name} ({seen[curve.name]})")
        for at, value in zip(curve.times_ns, curve.values, strict=False):
            if -math.inf < value < math.inf:
                ts = thousandths(since(at, base_ns))
                head = f'{SEPARATOR}{{"ph":"C","name":{name},"pid":{process},"tid":0'
                yield f'{head},"ts":{ts},"args":{{"value":{value!r}}}}}'


def since(at: int, base_ns: int) -> int:
    return min(max(at - base_ns, 0), LONGEST_NS)
