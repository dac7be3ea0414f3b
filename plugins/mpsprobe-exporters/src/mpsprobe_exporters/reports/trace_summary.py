"""A trace in figures: kernels and copies by name, and how its steps divide between the device and the host."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mpsprobe_exporters.units import BEYOND

if TYPE_CHECKING:
    from mpsprobe.schemas import Trace

Interval = tuple[int, int]
MOST_DIGITS = 18  # of a number of bytes; nothing that was copied has more


class Total(NamedTuple):
    """Kernels or copies of one name."""

    name: str
    calls: int
    total_ns: int
    minimum_ns: int
    maximum_ns: int
    bytes: int | None  # of all of them; ``None`` where no event has it


class Division(NamedTuple):
    """How the steps of a trace divide; the parts exclude each other and sum up to ``total_ns``.

    ``kernel_ns``: a kernel runs. ``copy_ns``: no kernel, but a copy. ``fallback_ns``: neither, while an operator runs
    on the CPU that the device has no kernel for. ``operator_ns``: none of these, while the host is inside an operator.
    ``other_ns``: the rest, which is Python and waiting. ``kernels`` counts those that begin in a step.
    """

    steps: int
    total_ns: int
    kernel_ns: int
    copy_ns: int
    fallback_ns: int
    operator_ns: int
    other_ns: int
    kernels: int

    @property
    def busy(self) -> float:
        return (self.kernel_ns + self.copy_ns) / self.total_ns if self.total_ns else 0.0


def totals(trace: Trace, category: str) -> list[Total]:
    """The kernels or the copies by name, longest in total first."""
    events: dict[int, list[int]] = {}
    for index in _of(trace, category):
        events.setdefault(trace.name[index], []).append(index)
    found = []
    for name, indices in events.items():
        spent = [trace.duration_ns[index] for index in indices]
        sizes = [size for index in indices if (size := _bytes(trace, index)) is not None]
        moved = sum(sizes) if sizes else None
        found.append(Total(trace.names[name], len(spent), sum(spent), min(spent), max(spent), moved))
    return sorted(found, key=lambda total: (-total.total_ns, total.name))


def divide(trace: Trace) -> Division | None:
    """How the steps divide, all of them together; ``None`` for a trace without events that last.

    Where no event is a step, the time from the first event to the end of the last counts as one.
    """
    windows = merged(_intervals(trace, "step"))
    steps = len(_of(trace, "step")) if windows else 1
    if not windows and trace.start_ns:
        ends = (start + spent for start, spent in zip(trace.start_ns, trace.duration_ns, strict=True))
        windows = merged([(min(trace.start_ns), max(ends))])
    total = _length(windows)
    if not total:
        return None
    covered: list[Interval] = []
    parts: list[int] = []
    for category in ("kernel", "copy", "fallback", "operator"):
        covered = merged([*covered, *_intervals(trace, category)])
        parts.append(overlap(windows, covered) - sum(parts))
    starts, last = [start for start, _ in windows], [end for _, end in windows]
    begins = (trace.start_ns[index] for index in _of(trace, "kernel"))
    started = sum((at := bisect_right(starts, begin) - 1) >= 0 and begin < last[at] for begin in begins)
    # A trace may hold any numbers; those that no run gives are not divided.
    kernel, copy, fallback, operator, other, total = (min(part, BEYOND) for part in (*parts, total - sum(parts), total))
    return Division(steps, total, kernel, copy, fallback, operator, other, started)


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The union of ``intervals`` as disjoint ones in order; empty ones are left out."""
    union: list[Interval] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        elif end > start:
            union.append((start, end))
    return union


def overlap(one: Sequence[Interval], other: Sequence[Interval]) -> int:
    """How long both unions last at the same time; both as ``merged`` returns them."""
    return _length(one) + _length(other) - _length(merged([*one, *other]))


def _length(union: Iterable[Interval]) -> int:
    return sum(end - start for start, end in union)


def _of(trace: Trace, category: str) -> list[int]:
    wanted = {index for index, name in enumerate(trace.categories) if name == category}
    return [index for index, kind in enumerate(trace.category) if kind in wanted] if wanted else []


def _intervals(trace: Trace, category: str) -> Iterator[Interval]:
    for index in _of(trace, category):
        yield trace.start_ns[index], trace.start_ns[index] + trace.duration_ns[index]


def _bytes(trace: Trace, index: int) -> int | None:
    detail = trace.detail[index]
    written = trace.details[detail].get("bytes", "") if detail >= 0 else ""
    return int(written) if written.isascii() and written.isdigit() and len(written) <= MOST_DIGITS else None
