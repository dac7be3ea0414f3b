"""Memory: what was held when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mpsprobe_exporters.html import figures, scales
from mpsprobe_exporters.html.figures import Line, Tip
from mpsprobe_exporters.html.markup import Markup, joined
from mpsprobe_exporters.html.scales import Axis, bounded
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.units import byte_size, duration

if TYPE_CHECKING:
    from mpsprobe.schemas import Counter, MemoryUse, ProfileCell, ProfileReport

MOST_POINTS = 400
NEAR = 0.4  # a limit is drawn from this share of it on: below, it would press the curves to the ground
CURVES = (("allocated", 1), ("reserved", 2), ("process", 4))


def memory(report: ProfileReport, cell: ProfileCell) -> Markup | None:
    """Curves of a cell, and the byte counters of its trace."""
    info = next((one for one in report.devices if one.type == cell.device), None)
    limit = info.memory_bytes if info is not None else None
    blocks: list[Markup | None] = [_curve(cell.memory, limit)] if cell.memory is not None else []
    counters = cell.trace.counters if cell.trace is not None else []
    blocks += [_counter(one) for one in counters[:8] if one.name.endswith("bytes")]
    found = [block for block in blocks if block]
    return joined(found) if found else None


def _curve(use: MemoryUse, limit: int | None) -> Markup | None:
    curve = use.curve
    series = {"allocated": curve.allocated_bytes, "reserved": curve.reserved_bytes, "process": curve.process_bytes}
    known = {name: [bounded(one) for one in series[name]] for name, _ in CURVES if series[name]}
    times = [bounded(one) for one in curve.times_ns]
    if len(times) < 2 or not known:
        return None
    top = max(max(values) for values in known.values())
    values = [top, bounded(limit)] if limit and top > NEAR * limit else [top]
    x, y = scales.axis(times, "ns", zero=False), scales.axis(values, "bytes")
    lines = [Line(name, color, _places(times, known[name], x, y)) for name, color in CURVES if name in known]
    tips = []
    for index in scales.thinned(len(times), MOST_POINTS):
        parts = [f"{name} {byte_size(int(found[index]))}" for name, found in known.items() if index < len(found)]
        tips.append(Tip(x.place(times[index]), f"{duration(times[index])}: {', '.join(parts)}"))
    level = (y.place(bounded(limit)), "memory of the device") if len(values) > 1 and limit else None
    return figures.plot("Memory over the timed steps, from the first one on", x, y, lines, tips=tips, level=level)


def _counter(one: Counter) -> Markup | None:
    pairs = sorted(zip(map(bounded, one.times_ns), map(bounded, one.values), strict=True))
    if len(pairs) < 2:
        return None
    times, values = [time for time, _ in pairs], [value for _, value in pairs]
    x, y = scales.axis(times, "ns", zero=False), scales.axis(values, "bytes")
    tips = [
        Tip(x.place(times[index]), f"{duration(times[index])}: {byte_size(int(values[index]))}")
        for index in scales.thinned(len(times), MOST_POINTS)
    ]
    title = f"{one_line(one.name, 60)}, a counter of the trace"
    return figures.plot(title, x, y, [Line("", 1, _places(times, values, x, y))], tips=tips)


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
