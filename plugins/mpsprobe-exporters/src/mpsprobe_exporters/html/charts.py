"""What a page draws itself: steps, the tree of modules, memory, and the events of a time line for the script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mpsprobe_exporters.document import Kind, written
from mpsprobe_exporters.html import drawing, figures
from mpsprobe_exporters.html.figures import Axis, Line, Tip, axis, bounded, thinned
from mpsprobe_exporters.html.markup import Markup, element, embedded, joined, name, scrolled
from mpsprobe_exporters.module_names import ROOT
from mpsprobe_exporters.plain_text import listed, one_line, plural
from mpsprobe_exporters.reports.configurations import device_memory
from mpsprobe_exporters.reports.profile_measurements import each_step, spoken
from mpsprobe_exporters.units import byte_size, duration, fraction, number

if TYPE_CHECKING:
    from mpsprobe.schemas import Counter, CoverageReport, MemoryUse, ModuleTime, ProfileCell, ProfileReport, Trace

MOST_DOTS, MOST_TIPS, MOST_BARS, FEWEST_IN_HISTOGRAM = 2000, 600, 24, 5
MOST_MODULES, MOST_PHASES_OF_MODULES = 3000, 8
DEEPEST = 12  # levels of the tree; what lies deeper is named by the rest of its path
OPEN = 40  # rows that are seen at first, at most
TITLES = ("Module", "Type", "Calls", "Total", "Share", "Self", "Total host", "Self host")
MOST_POINTS, MOST_COUNTERS = 400, 8
NEAR = 0.4  # a limit is drawn from this share of it on: below, it would press the curves to the ground
NEAR_PREDICTED = 0.25
CURVES = (("allocated", "reserved"), ("process",))  # the process has a plot of its own: it is many times as large
COLORS = {"allocated": 1, "reserved": 2, "process": 4}
NAMED = 0.12  # of the width that a phase needs for its name
MOST_PHASES = 12  # of a generation, each token is one
CATEGORIES = ("step", "phase", "module", "operator", "launch", "kernel", "copy", "fallback", "other")
MOST_DETAILS, LONGEST_DETAIL = 8, 160
MOST_COUNTERS_OF_TRACE, MOST_COUNTER_POINTS = 4, 1000


def steps(cell: ProfileCell) -> Markup:
    return joined([_dots(cell), _histogram(cell)])


def _dots(cell: ProfileCell) -> Markup | None:
    samples = sorted(cell.steps, key=lambda sample: sample.process)[:MOST_DOTS]
    if not samples:
        return None
    count = len(samples)
    y = axis([sample.duration_ns for sample in samples], "ns")
    # Steps count from 1: the first one, and round numbers.
    ticks = [(at - 1, word) for at, word in axis([float(count)], "", whole=True).ticks if 1 < at <= count]
    x = Axis(-0.5, count - 0.5, [(0.0, "step 1"), *ticks])
    places = [(x.place(index), y.place(bounded(sample.duration_ns))) for index, sample in enumerate(samples)]
    lines = [
        Line("", 1, [at for at, sample in zip(places, samples, strict=True) if not sample.outlier], "dots"),
        Line("", 3, [at for at, sample in zip(places, samples, strict=True) if sample.outlier], "odd"),
    ]
    tips = []
    for index in thinned(count, MOST_TIPS):
        sample = samples[index]
        process = f", process {number(sample.process)}" if sample.process else ""
        said = f"step {number(index + 1)}{process}: {duration(bounded(sample.duration_ns))}"
        tips.append(Tip(places[index][0], said + (", outlier" if sample.outlier else "")))
    changes = [index for index in range(1, count) if samples[index].process != samples[index - 1].process]
    step = cell.step
    levels = [(y.place(step.median_ns), "median")] if step is not None else []
    band = None if step is None else (y.place(step.low_ns), y.place(step.high_ns))
    title = f"{plural(len(cell.steps), 'timed step')}, in order"
    title += f", {plural(len(changes) + 1, 'process', 'processes')} side by side" if changes else ""
    title += f"; the median is {duration(step.median_ns)}, the band its interval" if step is not None else ""
    title += f" (the first {number(MOST_DOTS)})" if len(cell.steps) > MOST_DOTS else ""
    divided = [x.place(index - 0.5) for index in changes]
    drawn = figures.plot(title, x, y, lines, tips=tips, band=band, levels=levels, divided=divided)
    odd = any(sample.outlier for sample in samples)
    return joined([drawn, figures.legend([(1, "step"), (3, "outlier")]) if odd else None])


def _histogram(cell: ProfileCell) -> Markup | None:
    durations = [bounded(sample.duration_ns) for sample in cell.steps]
    if len(durations) < FEWEST_IN_HISTOGRAM or max(durations) <= min(durations):
        return None
    x = axis(durations, "ns", zero=False)
    # Sturges' rule would give too few for long tails; the square root is the other usual one.
    bins = min(MOST_BARS, max(5, round(len(durations) ** 0.5) * 2))
    counts = [0] * bins
    for spent in durations:
        counts[min(bins - 1, int(x.place(spent) * bins))] += 1
    y = axis([float(max(counts))], "", 3, whole=True)
    ends = f"{duration(min(durations))} to {duration(max(durations))}"
    return figures.histogram(f"How they spread: {ends}; the height is the number of steps", x, counts, y)


@dataclass(slots=True)
class _Node:
    """A part of the model; ``time`` is ``None`` where only the parts inside it were timed."""

    label: str
    time: ModuleTime | None = None
    inner: dict[str, _Node] = field(default_factory=dict)


def modules(cell: ProfileCell) -> Markup:
    phases = list(dict.fromkeys(module.phase for module in cell.modules))
    parts: list[Markup] = []
    for phase in phases[:MOST_PHASES_OF_MODULES]:
        parts += [element("h3", phase)] if len(phases) > 1 else []
        parts.append(_tree(cell, [module for module in cell.modules if module.phase == phase][:MOST_MODULES]))
    return joined(parts)


def _tree(cell: ProfileCell, times: list[ModuleTime]) -> Markup:
    on_device = any(module.device_ns for module in times)
    root = _Node(ROOT)
    for module in times:
        node = root
        for part in module.module.split(".", DEEPEST - 1) if module.module else []:
            node = node.inner.setdefault(part, _Node(part or "(none)"))
        node.time = module
    whole = max((module.device_ns or 0) if on_device else module.host_ns for module in times)
    caption = f"{plural(len(times), 'module')}, in one step; "
    caption += "time on the device, then on the host" if on_device else "time on the host"
    titles = TITLES if on_device else TITLES[:6]
    head = (element("th", title, scope="col", class_="n" if index > 1 else None) for index, title in enumerate(titles))
    rows = list(_rows(root, 0))
    levels = [level for level, _ in rows]
    tree = element(
        "table",
        element("caption", caption, class_="quiet"),
        element("thead", element("tr", *head)),
        element("tbody", *(_row(cell, node, level, on_device, whole) for level, node in rows)),
        class_="data tree",
        data_open=max((last for last in set(levels) if sum(level <= last for level in levels) <= OPEN), default=0),
    )
    return scrolled(tree, caption, "scroll")


def _rows(node: _Node, level: int) -> Iterator[tuple[int, _Node]]:
    yield level, node
    for inner in node.inner.values():
        yield from _rows(inner, level + 1)


def _row(cell: ProfileCell, node: _Node, level: int, on_device: bool, whole: int) -> Markup:
    head = element("th", name(node.label, 60), scope="row", class_=f"l{level}")
    time = node.time
    if time is None:
        nothing = element("td", "not timed itself", colspan=7 if on_device else 5, class_="quiet")
        return element("tr", head, nothing, data_level=level)
    total, own = (time.device_ns or 0, time.self_device_ns or 0) if on_device else (time.host_ns, time.self_host_ns)
    amounts: list[tuple[int, Kind]] = [(time.calls, "number"), (total, "time"), (own, "time")]
    amounts += [(time.host_ns, "time"), (time.self_host_ns, "time")] if on_device else []
    drawn = [element("td", written(each_step(cell, value), kind), class_="n") for value, kind in amounts]
    drawn.insert(2, element("td", drawing.cell(fraction(total, whole), "part"), class_="n"))
    return element("tr", head, element("td", name(time.type, 40, "")), *drawn, data_level=level)


def memory(report: ProfileReport, cell: ProfileCell) -> Markup:
    """What was held when: curves of a cell, and the byte counters of its trace."""
    limit = device_memory(report, cell)
    blocks = [_curve(cell.memory, names, limit) for names in CURVES] if cell.memory is not None else []
    for counter in cell.trace.counters[:MOST_COUNTERS] if cell.trace is not None else []:
        if counter.name.endswith("bytes"):
            words = spoken(counter.name)
            points = sorted(zip(counter.times_ns, map(bounded, counter.values), strict=True))
            values = {words: [value for _, value in points]}
            blocks.append(_plot(f"{words.capitalize()}, a counter of the trace", [time for time, _ in points], values))
    return joined(blocks)


def _curve(use: MemoryUse, names: Sequence[str], limit: int | None) -> Markup | None:
    """Some of the curves over time; the device's memory is a line where they come near to it."""
    series = {name: [bounded(value) for value in getattr(use.curve, f"{name}_bytes")] for name in names}
    known = {name: values for name, values in series.items() if values}
    top = max((max(values) for values in known.values()), default=0.0)
    level = bounded(limit) if limit and top > NEAR * limit and "process" not in names else None
    whose = "memory of the process" if "process" in known else f"{listed(list(known))} memory"
    return _plot(f"{whose.capitalize()} over the timed steps", use.curve.times_ns, known, level)


def _plot(
    title: str, times_ns: Sequence[int], known: Mapping[str, Sequence[float]], limit: float | None = None
) -> Markup | None:
    times = [bounded(time) for time in times_ns]
    if len(times) < 2 or not known:
        return None
    ends = [*(max(values) for values in known.values()), *([limit] if limit else [])]
    x, y = axis(times, "ns", exact=True), axis(ends, "bytes")
    lines = [Line(name, COLORS.get(name, 1), _staircase(times, values, x, y)) for name, values in known.items()]
    tips = []
    for index in thinned(len(times), MOST_POINTS):
        parts = [f"{name} {byte_size(values[index])}" for name, values in known.items() if index < len(values)]
        tips.append(Tip(x.place(times[index]), f"{duration(times[index])}: {', '.join(parts)}"))
    levels = [(y.place(limit), "the device")] if limit else []
    return figures.plot(title, x, y, lines, tips=tips, levels=levels)


def _staircase(times: Sequence[float], values: Sequence[float], x: Axis, y: Axis) -> list[tuple[float, float]]:
    """What was held stays until the next sample. Of many points the highest of each stretch is kept."""
    count = min(len(times), len(values))
    stride = max(1, -(-count // MOST_POINTS))
    places: list[tuple[float, float]] = []
    for begin in range(0, count, stride):
        index = max(range(begin, min(begin + stride, count)), key=lambda at: values[at])
        at = (x.place(times[index]), y.place(values[index]))
        places += [(at[0], places[-1][1])] if places else []
        places.append(at)
    return places


def predicted(report: CoverageReport) -> Markup | None:
    """What is alive over the step, with its phases and the limits of the Mac; None where it is not known."""
    use = report.memory
    if use is None or not use.curve:
        return None
    heights = [bounded(moment.bytes) for moment in use.curve]
    limits: list[tuple[float, str]] = []
    for word, figure in (("advised", "recommended_bytes"), ("raises", "allowed_bytes")):
        # By the smallest published figures, and by the largest where these differ.
        low, high = (getattr(end, figure) for end in (use.fit.low, use.fit.high)) if use.fit else (None, None)
        limits += [(bounded(low), word)] if low is not None else []
        limits += [(bounded(high), "")] if high is not None and high != low else []
    limits = [(at, word) for at, word in limits if max(heights) >= NEAR_PREDICTED * at]
    y = axis([*heights, *(at for at, _ in limits)], "bytes")
    count = len(heights)
    places = [(at / count, y.place(height)) for index, height in enumerate(heights) for at in (index, index + 1)]
    begins, ticks, start = [], [], 0
    for phase, stretch in groupby(use.curve, key=lambda moment: moment.phase):
        length = len(list(stretch))
        begins += [start / count] if start else []
        if phase and length >= NAMED * count:
            ticks.append((start + length / 2, one_line(phase, 20)))
        start += length
    tips = []
    for index, moment in enumerate(use.curve):
        phase = one_line(moment.phase, 20) or "before the step"
        tips.append(Tip((index + 0.5) / count, f"{phase}: up to {byte_size(moment.bytes)}"))
    title = f"Memory that is alive over the step, at most {byte_size(use.peak_bytes)}"
    title += "; dashed, by the published figures: what Metal advises, and where PyTorch raises" if limits else ""
    x, levels = Axis(0, count, ticks), [(y.place(at), word) for at, word in limits]
    divided = begins if len(begins) <= MOST_PHASES else []
    return figures.plot(title, x, y, [Line("alive", 1, places)], tips=tips, levels=levels, divided=divided)


def timeline(cell: ProfileCell, most: int) -> Markup:
    """A step of the cell's trace, at most ``most`` of its events: the longest, so that what is drawn still nests."""
    trace = cell.trace
    if trace is None or not trace.start_ns:
        return Markup()
    begin, end, step = _window(trace)
    inside = [index for index, start in enumerate(trace.start_ns) if begin <= start < end or start == begin]
    kept = inside
    if len(inside) > most:
        kept = sorted(sorted(inside, key=lambda index: -trace.duration_ns[index])[:most])
    left = []
    if len(kept) < len(inside):
        left.append(f"the {number(len(inside) - len(kept))} shortest events of this step are not drawn")
    if trace.truncated:
        left.append(f"{plural(trace.truncated, 'event')} had been left out when the trace was taken")
    if len(inside) < len(trace.start_ns):
        left.append("the other steps are in the report; the format chrome draws them all")
    said = f"{step}, {duration(bounded(end - begin))}, {plural(len(kept), 'event')}."
    about = element("p", f"{said} {'; '.join(left).capitalize()}." if left else said)
    drawn = element("p", "The time line is drawn by a script.", class_="quiet nojs")
    data = embedded(_columns(trace, kept, begin, end), class_="events")
    return joined([about, drawn, element("div", data, class_="timeline")])


def _window(trace: Trace) -> tuple[int, int, str]:
    """The step of median length, as the one that stands for the others; all of it where no event is a step."""
    events = enumerate(zip(trace.category, trace.duration_ns, strict=True))
    steps = [index for index, (kind, spent) in events if trace.categories[kind] == "step" and spent > 0]
    if not steps:
        end = max(start + spent for start, spent in zip(trace.start_ns, trace.duration_ns, strict=True))
        return min(trace.start_ns), end, "The whole trace"
    middle = sorted(steps, key=lambda index: trace.duration_ns[index])[(len(steps) - 1) // 2]
    start = trace.start_ns[middle]
    of = f" (the median one of {number(len(steps))})" if len(steps) > 1 else ""
    return start, start + trace.duration_ns[middle], f"{one_line(trace.names[trace.name[middle]], 60)}{of}"


def _columns(trace: Trace, kept: Sequence[int], begin: int, end: int) -> dict[str, Any]:
    """Events with tables of their own: starts as differences, names with their category, details shortened."""
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
        "tracks": [{"name": one_line(track.name, 60), "kind": track.kind} for track in trace.tracks],
        "names": [[one_line(trace.names[n], 120), CATEGORIES.index(trace.categories[c])] for n, c in names],
        "details": [_detail(trace.details[index]) for index in details],
        "counters": [_counter(counter, begin, end) for counter in trace.counters[:MOST_COUNTERS_OF_TRACE]],
        **columns,
    }


def _detail(detail: dict[str, str]) -> list[list[str]]:
    return [[one_line(key, 40), one_line(value, LONGEST_DETAIL)] for key, value in list(detail.items())[:MOST_DETAILS]]


def _counter(counter: Counter, begin: int, end: int) -> dict[str, Any]:
    """The values inside the window, with the last one before it."""
    points = sorted(zip(counter.times_ns, counter.values, strict=True))
    earlier = [(begin, value) for time, value in points if time < begin][-1:]
    inside = [*earlier, *((time, value) for time, value in points if begin <= time <= end)]
    stride = max(1, -(-len(inside) // MOST_COUNTER_POINTS))
    return {
        "name": one_line(counter.name, 60),
        "t": [int(bounded(time - begin)) for time, _ in inside[::stride]],
        "v": [bounded(value) for _, value in inside[::stride]],
    }
