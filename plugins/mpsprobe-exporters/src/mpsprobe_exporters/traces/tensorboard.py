"""A logdir for TensorBoard with the plugin torch-tb-profiler 0.4.3: one run, and a worker in it for each cell.

What the plugin reads, from its source (0.4.3, the last release): events with ``ph`` X, whose ``cat`` it looks up in
a fixed list, and instants named ``[memory]``. Whole runs are lost to an event without a name, a thread that is no
number, a step of no length, or a module outside the tree of its thread; GPUs are numbers below 64, the process of a
kernel is that number, and memory is drawn for the device types 0 (CPU) and 1 (GPU) only, so MPS is written as GPU0.
"""

from __future__ import annotations

import math
import re
import zlib
from bisect import bisect_right
from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mpsprobe_exporters.supported import supported_report
from mpsprobe_exporters.traces import timed
from mpsprobe_exporters.traces.chrome import facts, header, worth_drawing
from mpsprobe_exporters.traces.encoding import CATEGORIES, LONGEST_NS, SEPARATOR, STEP_PREFIX, TIMED_STEP, pairs, text
from mpsprobe_exporters.traces.layout import Layout, Row, framed, title, where
from mpsprobe_exporters.traces.slices import Slices, kept
from mpsprobe_exporters.traces.timed import Curve

if TYPE_CHECKING:
    from mpsprobe.schemas import Counter, ProfileCell, ProfileReport, Trace
    from mpsprobe.schemas.report import Report

    Curves = Sequence[Curve | Counter]
    Points = list[tuple[int, int]]

FIRST_HOST = 1000  # the number of the first process of the host; smaller ones are devices
LONGEST_NAME = 80
WINDOW = "PyTorch Profiler (0)"  # the event that tells the reader where the profile begins and ends
CPU_PREFIX = "cpu_"  # of the names of curves that are the host's in the trace of another device
AT_FIRST = "(memory that is held at first)"
LARGEST = 2.0**62  # bytes
PLACEHOLDER = ',"args":{"placeholder":"yes"}}'
# ``runtime`` is the reader's only name of a launch, and it knows no fallbacks. A phase gets a name that it does not
# know, because it would count every annotation as work of the CPU; the trace view shows it all the same.
READ_AS = {**CATEGORIES, "launch": "runtime", "fallback": "cpu_op", "phase": "phase"}
# Facts of a kernel that the reader's views show, where a trace has them.
KERNEL_FACTS = ("est. achieved occupancy %", "blocks per SM", "registers per thread", "shared memory")
_OPERATOR = ("External id", "Input Dims", "Input type", "Python id", "Python parent id", "Python module id", "device")
TAKEN = frozenset({"correlation", *_OPERATOR, *KERNEL_FACTS})
OPERATORS = frozenset({"operator", "fallback"})
ON_DEVICE = frozenset({"kernel", "copy"})
STEP_NAME = re.compile(rf"{STEP_PREFIX}\d{{1,9}}", re.ASCII)
SHAPES = re.compile(r"\[[\d, ]*\](?: \[[\d, ]*\])*", re.ASCII)


class TensorboardExporter:
    """Writes ``RUN/WORKER.pt.trace.json.gz`` for each cell that has a trace or timed steps."""

    def files(self, report: Report) -> Iterable[tuple[str, Iterable[bytes]]]:
        """Each worker's file. The run is called after the first workload and its phase."""
        profile: ProfileReport = supported_report(report, "tensorboard")
        cells = worth_drawing(profile)
        run = _safe(f"{cells[0].workload}-{cells[0].phase}")
        several = len({(cell.workload, cell.phase) for cell in cells}) > 1
        for number, cell in enumerate(cells, 1):
            # The reader shows the first name first, so they are counted.
            worker = _safe(f"{number}-{title(cell) if several else where(cell)}")
            yield f"{run}/{worker}.pt.trace.json.gz", _gzipped(_worker(profile, cell))


def _safe(name: str) -> str:
    """``name`` as a file name everywhere, without the dot that the reader takes for the beginning of a number."""
    return re.sub(r"[^A-Za-z0-9_=+-]+", "-", name)[:LONGEST_NAME].strip("-") or "report"


def _gzipped(parts: Iterable[str]) -> Iterator[bytes]:
    """The same for the same text: the header holds no time."""
    packer = zlib.compressobj(level=6, wbits=31)
    for part in parts:
        yield packer.compress(part.encode("ascii"))
    yield packer.flush()


def _worker(report: ProfileReport, cell: ProfileCell) -> Iterator[str]:
    layout = Layout()
    trace = cell.trace if cell.trace is not None and cell.trace.start_ns else None
    processes = list(dict.fromkeys((track.kind, track.process) for track in trace.tracks) if trace is not None else [])
    hosts, devices = ([process for process in processes if process[0] == kind] for kind in ("host", "device"))
    numbers = {host: FIRST_HOST + at for at, host in enumerate(hosts)} | {
        device: at for at, device in enumerate(devices)
    }
    # What the reader needs lies on a host, also where the trace has none.
    named = [FIRST_HOST + at for at in range(max(len(hosts), 1))]
    head = header(report, [facts(cell, [*named, *range(len(devices))], None)])
    for number in named:
        layout.process(number, f"{title(cell)}: host", None if trace is not None else timed.MADE)
    for number in range(len(devices)):
        layout.process(number, f"{title(cell)}: {cell.device.upper()}")
    return framed(head, _timed(cell, layout) if trace is None else _profiled(trace, cell, layout, numbers))


def _profiled(trace: Trace, cell: ProfileCell, layout: Layout, processes: Mapping[Any, int]) -> Iterator[str]:
    numbers = [processes[track.kind, track.process] for track in trace.tracks]
    rows = [Row(layout, number, track.name) for number, track in zip(numbers, trace.tracks, strict=True)]
    no_steps = _swallowed(trace)
    slices = Slices(trace)
    last = max(start + spent for start, spent in zip(trace.start_ns, trace.duration_ns, strict=True))
    last = min(last - slices.base_ns, LONGEST_NS)
    whole = layout.thread(FIRST_HOST, "the whole trace")
    yield "".join(layout.taken())
    kinds = [trace.categories[kind] for kind in trace.category]
    if not any(kind == "step" and start not in no_steps for kind, start in zip(kinds, trace.start_ns, strict=True)):
        # Without one the reader takes the operators of the host for the step.
        yield _bounded(f"{STEP_PREFIX}0", "user_annotation", whole, 0, last)
    yield _window(last)
    if OPERATORS.isdisjoint(kinds):
        yield _placeholder(whole)
    yield from layout.pieces(_joined_events(trace, slices, rows, numbers, no_steps))
    curves: Curves = trace.counters
    place, base_ns = _main_thread(trace, rows) or whole, slices.base_ns
    if cell.memory and not any(curve.name.removeprefix(CPU_PREFIX) == "allocated_bytes" for curve in curves):
        # Of the timed steps, which no operator of this trace can be charged with: on a row without any.
        yield from _allocations(timed.memory(cell.memory.curve), whole, 0, cell, layout)
    else:
        yield from _allocations(curves, place, base_ns, cell, layout)
    yield from layout.pieces(timed.counters(curves, FIRST_HOST, base_ns))


def _main_thread(trace: Trace, rows: Sequence[Row]) -> str | None:
    """The track of the host on which most steps are, else the one with most events: whose operators allocate."""
    events = zip(trace.category, trace.track, strict=True)
    counts = Counts((trace.categories[kind] == "step", track) for kind, track in events)
    hosts = [(step, number, track) for (step, track), number in counts.items() if trace.tracks[track].kind == "host"]
    return rows[max(hosts)[2]].place if hosts else None


def _timed(cell: ProfileCell, layout: Layout) -> Iterator[str]:
    """The timed steps as steps: the overview has their lengths, and memory its curve."""
    steps = timed.timed(cell)
    assert steps is not None
    number = start = latest = 0
    for name, slices in steps.rows.items():
        place = layout.thread(FIRST_HOST, name)
        yield "".join(layout.taken())
        timed_row = any(stretch.category == TIMED_STEP for stretch in slices)
        start = latest if timed_row else 0  # steps of several processes one after the other: the reader adds them up
        for stretch in slices:
            step = stretch.category == TIMED_STEP
            shown, category = (
                (f"{STEP_PREFIX}{number}", "user_annotation") if step else (stretch.name, stretch.category)
            )
            number += step
            begin = start + stretch.begin
            latest = max(latest, begin + stretch.duration)
            yield _bounded(shown, category, place, begin, begin + stretch.duration)
    yield _window(latest)
    note = layout.thread(FIRST_HOST, "note")
    yield "".join(layout.taken())
    yield _placeholder(note)
    if cell.memory is not None:
        curves = timed.memory(cell.memory.curve, steps.first_ns)
        yield from _allocations(curves, place, 0, cell, layout)
        yield from layout.pieces(timed.counters(curves, FIRST_HOST, 0))


def _bounded(name: str, category: str, place: str, begin: int, end: int) -> str:
    begin = min(begin, LONGEST_NS)
    return _event(name, category, place, begin, min(max(end, begin + 1), LONGEST_NS + 1))


def _window(last: int) -> str:
    """From a microsecond on the reader can divide the time into buckets."""
    return _bounded(WINDOW, "Trace", '"pid":"Spans","tid":"PyTorch Profiler"', 0, max(last, 1000))


def _placeholder(place: str) -> str:
    """The reader's operator view breaks on a worker without operators, and the other views with it."""
    return _bounded("(no operators were profiled: --probe operators)", "cpu_op", place, 0, 1)[:-1] + PLACEHOLDER


def _allocations(curves: Curves, place: str, base_ns: int, cell: ProfileCell, layout: Layout) -> Iterator[str]:
    """Memory as the reader draws it: an allocation or release for each change of a curve.

    It knows the types of device 0 and 1 only: where the cell's is the CPU allocated bytes are the host's, else they
    are drawn for GPU0. Each change is an allocation of its own, so an operator is charged with what changed while it
    ran.
    """
    by_name = {curve.name: curve for curve in reversed(curves)}
    if not any(name.endswith("allocated_bytes") for name in by_name):
        # Torch does not count what the CPU holds: there the footprint of the whole process stands for it.
        by_name = {f"{CPU_PREFIX}allocated_bytes": by_name[name] for name in by_name if name == "process_bytes"}
    for prefix, on_host in ((CPU_PREFIX, True), ("", cell.device == "cpu")):
        allocated, reserved = (by_name.get(f"{prefix}{name}") for name in ("allocated_bytes", "reserved_bytes"))
        if allocated is not None:
            where = '"Device Type":0,"Device Id":-1' if on_host else '"Device Type":1,"Device Id":0'
            held = _points(reserved) if reserved is not None else []
            yield from layout.pieces(_changes(_points(allocated), held, place, where, base_ns, layout))


def _changes(
    allocated: Points, reserved: Points, place: str, where: str, base_ns: int, layout: Layout
) -> Iterator[str]:
    """The reader draws a device only if an operator is charged there. What is held at first belongs to none, so a
    stand-in of no length gets it, on a row of its own.
    """
    before, position, started = 0, 0, False
    for index, (at, value) in enumerate(allocated):
        while position < len(reserved) - 1 and reserved[position + 1][0] <= at:
            position += 1
        holding = reserved[position][1] if reserved else 0  # torch writes it so; without one no curve is drawn
        begin = timed.since(at, base_ns)
        charged = place
        if value > 0 and not started:
            started, charged = True, layout.thread(FIRST_HOST, "memory at first")
            yield _event(AT_FIRST, "cpu_op", charged, begin, begin + 1)[:-1] + PLACEHOLDER
        yield (
            f'{SEPARATOR}{{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]",{charged},'
            f'"ts":{_exact(begin)},"args":{{{where},"Addr":{index + 1},"Bytes":{value - before},'
            f'"Total Allocated":{value},"Total Reserved":{holding}}}}}'
        )
        before = value


def _points(curve: Curve | Counter) -> Points:
    known = zip(curve.times_ns, curve.values, strict=False)
    return sorted((at, round(min(value, LARGEST))) for at, value in known if 0 <= value < math.inf)


class Open(NamedTuple):
    operator: int  # that an open event is, or is in; 0: none
    module: int


def _joined_events(
    trace: Trace, slices: Slices, rows: Sequence[Row], devices: Sequence[int], no_steps: frozenset[int]
) -> Iterator[str]:
    """Each event, with what it belongs to; ``rows`` and ``devices`` by track, ``no_steps`` as ``_swallowed`` has it."""
    details = kept(lambda index: pairs(trace.details[index], TAKEN))
    links = _Links()
    on_host = slices.on_host
    for name, category, track, detail, flow, start, duration in slices.columns():
        kind = trace.categories[category]
        begin = min(start - slices.base_ns, LONGEST_NS)
        # A step of no length is a division by zero in the reader.
        end = min(begin + (max(duration, 1) if kind == "step" else duration), LONGEST_NS + 1)
        row = rows[track]
        while row.ends and row.ends[-1] <= begin:
            row.ends.pop()
            row.contexts.pop()
        known = trace.details[detail] if detail >= 0 else {}
        cat = READ_AS[kind]
        if kind == "step" and start in no_steps:
            kind, cat = "other", "step"
        if kind in ON_DEVICE and on_host[track]:  # the reader asks each of these for its device
            kind = cat = "other"
        shown = links.name(kind, trace.names[name], known)
        around = row.contexts[-1] if row.contexts else Open(0, 0)
        context, inside = links.enter(around, kind, shown, known, flow)
        if row.ends and end > row.ends[-1]:
            place = row.lane_for(begin, end)
        else:
            row.ends.append(end)
            row.contexts.append(context)
            place = row.place
        device = "" if on_host[track] else f'"device":{devices[track]}'
        args = ",".join(part for part in (inside, device, details(detail) if detail >= 0 else "") if part)
        drawn = slices.arrow(flow, on_host[track])
        arrow = f'{drawn}{place},"ts":{_exact(begin)}}}' if drawn else ""
        yield f'{_event(shown, cat, place, begin, end)[:-1]},"args":{{{args}}}}}{arrow}'


def _event(name: str, category: str, place: str, begin: int, end: int) -> str:
    cat, name = text(category), text(name)
    return f'{SEPARATOR}{{"ph":"X","cat":{cat},"name":{name},{place},"ts":{_exact(begin)},"dur":{_exact(end, begin)}}}'


def _exact(nanoseconds: int, begin: int = 0) -> str:
    """Nanoseconds since ``begin`` in 1024ths of a microsecond, rounded, as microseconds; order and equality are kept.

    A reader that adds a start and a duration as floating-point numbers gets exactly the end that was meant: multiples
    of 2⁻¹⁰ are exact, multiples of 0.001 are not, and an event that ends with the one around it would stick out.
    """
    return repr(((nanoseconds * 128 + 62) // 125 - (begin * 128 + 62) // 125) / 1024)


class _Links:
    """Numbers operators, module calls and launches in the order in which they are written."""

    def __init__(self) -> None:
        self._counts: Counts[str] = Counts()
        self._module_ids: dict[str, int] = {}
        self._launched: dict[int, int] = {}

    def name(self, category: str, name: str, detail: Mapping[str, str]) -> str:
        """``name`` so that the reader takes the event for what it is, and shows which module it is."""
        if category == "step":
            self._counts["step"] += 1
            return name if STEP_NAME.fullmatch(name) else f"{STEP_PREFIX}{self._counts['step'] - 1}"
        if category == "module":
            path, kind = detail.get("module", ""), detail.get("type", "")
            # A path of torch.profiler's is the type and a number.
            both = path and kind and not path.startswith(kind)
            shown = f"{path} ({kind})" if both else path or kind or name.removeprefix("nn.Module: ")
            phase = detail.get("phase", "forward")
            return f"nn.Module: {shown}" + (f", {phase}" if phase != "forward" else "")
        return f" {name}" if name.startswith(STEP_PREFIX) else name

    def enter(self, around: Open, category: str, name: str, detail: Mapping[str, str], flow: int) -> tuple[Open, str]:
        """The event's own context, and the inside of its ``args`` that says who it belongs to."""
        if category in OPERATORS:
            self._counts["operator"] += 1
            operator = self._counts["operator"]
            return Open(operator, around.module), f'"External id":{operator}{_inputs(detail)}'
        if category == "module":
            self._counts["module"] += 1
            module, identity = self._counts["module"], self._module_ids.setdefault(name, len(self._module_ids))
            ids = f'"Python parent id":{around.module or "null"},"Python module id":{identity}'
            return Open(around.operator, module), f'"Python id":{module},{ids}'
        if category == "launch":
            # One without a kernel gets a number of its own: the reader would give it all kernels without a launch.
            self._counts["launch"] += 1
            self._launched[flow] = around.operator
            return around, f'"External id":{around.operator},"correlation":{flow or -self._counts["launch"]}'
        if category in ON_DEVICE:
            joined = f'"External id":{self._launched.get(flow, 0)}' + (f',"correlation":{flow}' if flow else "")
            facts = [(fact, _number(detail[fact])) for fact in KERNEL_FACTS if fact in detail]
            return around, joined + "".join(f",{text(fact)}:{value!r}" for fact, value in facts if value is not None)
        return around, ""


def _inputs(detail: Mapping[str, str]) -> str:
    shapes, types = detail.get("shapes", ""), detail.get("dtypes", "")
    dims = f',"Input Dims":[{shapes.replace("] [", "],[")}]' if SHAPES.fullmatch(shapes) else ""
    return dims + (f',"Input type":[{",".join(map(text, types.split()))}]' if types else "")


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _swallowed(trace: Trace) -> frozenset[int]:
    """When the steps begin that have no length in the eyes of the reader, which loses a run with one of them.

    Its rule: where any step started kernels, a step begins when the work of the device for the ones before it has
    ended, and ends with its own. One that ends on the host before that, and starts nothing that takes longer, has no
    length left: a common sight where the host runs ahead of the device.
    """
    kinds = [trace.categories[kind] for kind in trace.category]
    columns = list(zip(kinds, trace.flow, trace.start_ns, trace.duration_ns, strict=True))
    steps = sorted((start, start + max(spent, 1)) for kind, _, start, spent in columns if kind == "step")
    ends: dict[int, int] = {}
    for kind, flow, start, spent in columns:
        if flow and kind in ON_DEVICE:
            ends[flow] = max(ends.get(flow, start), start + spent)
    device_ends: dict[int, int] = {}
    for kind, flow, start, spent in columns:
        number = bisect_right(steps, start, key=lambda step: step[0]) - 1
        if kind == "launch" and flow in ends and number >= 0 and start + spent <= steps[number][1]:
            device_ends[number] = max(device_ends.get(number, ends[flow]), ends[flow])
    lost = set()
    before = steps[0][0] if steps else 0
    for number, (begin, end) in enumerate(steps if device_ends else ()):
        latest = max(end, device_ends.get(number, end))
        if latest <= max(before, begin):
            lost.add(begin)
        else:
            before = latest
    return frozenset(lost)
