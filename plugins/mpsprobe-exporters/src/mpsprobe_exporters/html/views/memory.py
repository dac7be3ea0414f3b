"""Memory: what was held when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mpsprobe_exporters.html import figures, scales
from mpsprobe_exporters.html.figures import Line, Tip
from mpsprobe_exporters.html.markup import Markup, joined
from mpsprobe_exporters.html.scales import Axis, bounded
from mpsprobe_exporters.plain_text import listed
from mpsprobe_exporters.reports.configurations import device_memory
from mpsprobe_exporters.reports.profile_measurements import spoken
from mpsprobe_exporters.units import byte_size, duration

if TYPE_CHECKING:
    from mpsprobe.schemas import Counter, MemoryUse, ProfileCell, ProfileReport

MOST_POINTS = 400
NEAR = 0.4  # a limit is drawn from this share of it on: below, it would press the curves to the ground
CURVES = (("allocated", "reserved"), ("process",))  # the process has a plot of its own: it is many times as large
COLORS = {"allocated": 1, "reserved": 2, "process": 4}


def memory(report: ProfileReport, cell: ProfileCell) -> Markup | None:
    """Curves of a cell, and the byte counters of its trace."""
    limit = device_memory(report, cell)
    found = [_curve(cell.memory, names, limit) for names in CURVES] if cell.memory is not None else []
    counters = cell.trace.counters if cell.trace is not None else []
    found += [_counter(one) for one in counters[:8] if one.name.endswith("bytes")]
    blocks = [block for block in found if block]
    return joined(blocks) if blocks else None


def _curve(use: MemoryUse, names: Sequence[str], limit: int | None) -> Markup | None:
    """Some of the curves over time; the device's memory is a line where they come near to it."""
    curve = use.curve
    series = {name: [bounded(one) for one in getattr(curve, f"{name}_bytes")] for name in names}
    known = {name: values for name, values in series.items() if values}
    top = max((max(values) for values in known.values()), default=0.0)
    level = bounded(limit) if limit and top > NEAR * limit and "process" not in names else None
    whose = "memory of the process" if "process" in known else f"{listed(list(known))} memory"
    return _plot(f"{whose.capitalize()} over the timed steps", curve.times_ns, known, level)


def _counter(one: Counter) -> Markup | None:
    pairs = sorted(zip(one.times_ns, map(bounded, one.values), strict=True))
    name = spoken(one.name)
    values = {name: [value for _, value in pairs]}
    return _plot(f"{name.capitalize()}, a counter of the trace", [time for time, _ in pairs], values)


def _plot(
    title: str, times_ns: Sequence[int], known: Mapping[str, Sequence[float]], limit: float | None = None
) -> Markup | None:
    times = [bounded(one) for one in times_ns]
    if len(times) < 2 or not known:
        return None
    ends = [*(max(values) for values in known.values()), *([limit] if limit else [])]
    x, y = scales.axis(times, "ns", exact=True), scales.axis(ends, "bytes")
    lines = [Line(name, COLORS.get(name, 1), _places(times, values, x, y)) for name, values in known.items()]
    tips = []
    for index in scales.thinned(len(times), MOST_POINTS):
        parts = [f"{name} {byte_size(found[index])}" for name, found in known.items() if index < len(found)]
        tips.append(Tip(x.place(times[index]), f"{duration(times[index])}: {', '.join(parts)}"))
    levels = [(y.place(limit), "the device")] if limit else []
    return figures.plot(title, x, y, lines, tips=tips, levels=levels)


def _places(times: Sequence[float], values: Sequence[float], x: Axis, y: Axis) -> list[tuple[float, float]]:
    """A staircase: what was held stays until the next sample. Of many points the highest of each stretch is kept."""
    count = min(len(times), len(values))
    stride = max(1, -(-count // MOST_POINTS))
    found: list[tuple[float, float]] = []
    for begin in range(0, count, stride):
        index = max(range(begin, min(begin + stride, count)), key=lambda one: values[one])
        at = (x.place(times[index]), y.place(values[index]))
        found += [(at[0], found[-1][1])] if found else []
        found.append(at)
    return found
