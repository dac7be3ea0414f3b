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
from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mpsprobe_exporters.supported import profile_of
from mpsprobe_exporters.traces import links, timed
from mpsprobe_exporters.traces.chrome import facts, header, worth_drawing
from mpsprobe_exporters.traces.encoding import LONGEST_NS, SEPARATOR, STEP_PREFIX, TIMED_STEP
from mpsprobe_exporters.traces.layout import Layout, Row, framed, title, where
from mpsprobe_exporters.traces.slices import Slices
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


class TensorboardExporter:
    """Writes ``RUN/WORKER.pt.trace.json.gz`` for each cell that has a trace or timed steps."""

    def files(self, report: Report) -> Iterable[tuple[str, Iterable[bytes]]]:
        """Each worker's file. The run is called after the first workload and its phase."""
        profile = profile_of(report, "tensorboard")
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
    hosts, devices = ([one for one in processes if one[0] == kind] for kind in ("host", "device"))
    numbers = {one: FIRST_HOST + at for at, one in enumerate(hosts)} | {one: at for at, one in enumerate(devices)}
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
    no_steps = links.swallowed(trace)
    slices = Slices(trace)
    last = max(start + spent for start, spent in zip(trace.start_ns, trace.duration_ns, strict=True))
    last = min(last - slices.base_ns, LONGEST_NS)
    whole = layout.thread(FIRST_HOST, "the whole trace")
    yield "".join(layout.taken())
    kinds = [trace.categories[kind] for kind in trace.category]
    if not any(kind == "step" and start not in no_steps for kind, start in zip(kinds, trace.start_ns, strict=True)):
        # Without one the reader takes the operators of the host for the step.
        yield _event(f"{STEP_PREFIX}0", "user_annotation", whole, 0, last)
    yield _window(last)
    if links.OPERATORS.isdisjoint(kinds):
        yield _placeholder(whole)
    yield from layout.pieces(links.events(trace, slices, rows, numbers, no_steps))
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
            yield _event(shown, category, place, begin, begin + stretch.duration)
    yield _window(latest)
    note = layout.thread(FIRST_HOST, "note")
    yield "".join(layout.taken())
    yield _placeholder(note)
    if cell.memory is not None:
        curves = timed.memory(cell.memory.curve, steps.first_ns)
        yield from _allocations(curves, place, 0, cell, layout)
        yield from layout.pieces(timed.counters(curves, FIRST_HOST, 0))


def _event(name: str, category: str, place: str, begin: int, end: int) -> str:
    begin = min(begin, LONGEST_NS)
    return links.event(name, category, place, begin, min(max(end, begin + 1), LONGEST_NS + 1))


def _window(last: int) -> str:
    """From a microsecond on the reader can divide the time into buckets."""
    return _event(WINDOW, "Trace", '"pid":"Spans","tid":"PyTorch Profiler"', 0, max(last, 1000))


def _placeholder(place: str) -> str:
    """The reader's operator view breaks on a worker without operators, and the other views with it."""
    return _event("(no operators were profiled: --probe operators)", "cpu_op", place, 0, 1)[:-1] + PLACEHOLDER


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
            yield links.event(AT_FIRST, "cpu_op", charged, begin, begin + 1)[:-1] + PLACEHOLDER
        yield (
            f'{SEPARATOR}{{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]",{charged},'
            f'"ts":{links.exact(begin)},"args":{{{where},"Addr":{index + 1},"Bytes":{value - before},'
            f'"Total Allocated":{value},"Total Reserved":{holding}}}}}'
        )
        before = value


def _points(curve: Curve | Counter) -> Points:
    known = zip(curve.times_ns, curve.values, strict=False)
    return sorted((at, round(min(value, LARGEST))) for at, value in known if 0 <= value < math.inf)
