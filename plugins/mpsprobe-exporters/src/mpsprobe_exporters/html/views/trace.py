"""Trace: the events of one step in columns for the script that draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mpsprobe_exporters.html.markup import Markup, element, embedded, joined
from mpsprobe_exporters.html.scales import bounded
from mpsprobe_exporters.plain_text import one_line, plural
from mpsprobe_exporters.units import duration, number

if TYPE_CHECKING:
    from mpsprobe.schemas import Counter, ProfileCell, Trace

CATEGORIES = ("step", "phase", "module", "operator", "launch", "kernel", "copy", "fallback", "other")
MOST_DETAILS, LONGEST_DETAIL = 8, 160
MOST_COUNTER_POINTS = 1000

Window = tuple[int, int]


def trace(cell: ProfileCell, most: int) -> Markup | None:
    """A step of the cell's trace, at most ``most`` of its events: the longest, so that what is drawn still nests."""
    if cell.trace is None or not cell.trace.start_ns or most < 1:
        return None
    chosen, name = _window(cell.trace)
    begin, end = chosen
    inside = [index for index, start in enumerate(cell.trace.start_ns) if begin <= start < end or start == begin]
    kept = inside
    if len(inside) > most:
        spent = cell.trace.duration_ns
        kept = sorted(sorted(inside, key=lambda index: -spent[index])[:most])
    data = _columns(cell.trace, kept, chosen)
    said = f"{name}, {duration(bounded(end - begin))}, {plural(len(kept), 'event')}"
    left = []
    if len(kept) < len(inside):
        left.append(f"the {number(len(inside) - len(kept))} shortest events of this step are not drawn")
    if cell.trace.truncated:
        left.append(f"{plural(cell.trace.truncated, 'event')} had been left out when the trace was taken")
    if len(inside) < len(cell.trace.start_ns):
        left.append("the other steps are in the report; the format chrome draws them all")
    return joined(
        [
            element("p", f"{said}. {'; '.join(left).capitalize()}." if left else f"{said}."),
            element("p", "The time line is drawn by a script.", class_="quiet nojs"),
            element("div", embedded(data, class_="events"), class_="timeline"),
        ]
    )


def _window(trace: Trace) -> tuple[Window, str]:
    """The step of median length, as the one that stands for the others; all of it where no event is a step."""
    wanted = {index for index, one in enumerate(trace.categories) if one == "step"}
    found = [index for index, one in enumerate(trace.category) if one in wanted and trace.duration_ns[index] > 0]
    if not found:
        ends = max(start + spent for start, spent in zip(trace.start_ns, trace.duration_ns, strict=True))
        return (min(trace.start_ns), ends), "The whole trace"
    ordered = sorted(found, key=lambda index: trace.duration_ns[index])
    middle = ordered[(len(ordered) - 1) // 2]
    start = trace.start_ns[middle]
    which = one_line(trace.names[trace.name[middle]], 60)
    of = f" (the median one of {number(len(found))})" if len(found) > 1 else ""
    return (start, start + trace.duration_ns[middle]), f"{which}{of}"


def _columns(trace: Trace, kept: Sequence[int], window: Window) -> dict[str, Any]:
    """Events with tables of their own: starts as differences, names with their category, details shortened."""
    begin, end = window
    names: dict[tuple[int, int], int] = {}
    details: dict[int, int] = {}
    flows: dict[int, int] = {0: 0}
    columns: dict[str, list[int]] = {key: [] for key in ("n", "t", "d", "f", "s", "l")}
    before = begin
    for index in kept:
        key, detail = (trace.name[index], trace.category[index]), trace.detail[index]
        columns["n"].append(names.setdefault(key, len(names)))
        columns["t"].append(trace.track[index])
        columns["d"].append(-1 if detail < 0 else details.setdefault(detail, len(details)))
        columns["f"].append(flows.setdefault(trace.flow[index], len(flows)))
        columns["s"].append(int(bounded(trace.start_ns[index] - before)))
        columns["l"].append(int(bounded(trace.duration_ns[index])))
        before = trace.start_ns[index]
    return {
        "length": int(bounded(end - begin)),
        "categories": list(CATEGORIES),
        "tracks": [{"name": one_line(one.name, 60), "kind": one.kind} for one in trace.tracks],
        "names": [[one_line(trace.names[n], 120), CATEGORIES.index(trace.categories[c])] for n, c in names],
        "details": [_detail(trace.details[index]) for index in details],
        "counters": [_counter(one, window) for one in trace.counters[:4]],
        **columns,
    }


def _detail(found: dict[str, str]) -> list[list[str]]:
    return [[one_line(key, 40), one_line(value, LONGEST_DETAIL)] for key, value in list(found.items())[:MOST_DETAILS]]


def _counter(one: Counter, window: Window) -> dict[str, Any]:
    """The values inside the window, with the last one before it."""
    begin, end = window
    pairs = sorted(zip(one.times_ns, one.values, strict=True))
    inside = [(time, value) for time, value in pairs if begin <= time <= end]
    earlier = [value for time, value in pairs if time < begin]
    inside = [(begin, earlier[-1]), *inside] if earlier else inside
    stride = max(1, -(-len(inside) // MOST_COUNTER_POINTS))
    return {
        "name": one_line(one.name, 60),
        "t": [int(bounded(time - begin)) for time, _ in inside[::stride]],
        "v": [bounded(value) for _, value in inside[::stride]],
    }
