"""A logdir for TensorBoard with the plugin torch-tb-profiler 0.4.3: one run, and a worker in it for each cell.

What the plugin reads, from its source (0.4.3, the last release): events with ``ph`` X, whose ``cat`` it looks up in
a fixed list, and instants named ``[memory]``. Whole runs are lost to an event without a name, a thread that is no
number, a step of no length, or a module outside the tree of its thread; GPUs are numbers below 64, the process of a
kernel is that number, and memory is drawn for the device types 0 (CPU) and 1 (GPU) only, so MPS is written as GPU0.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters.supported import profile_of
from mpsprobe_exporters.traces import counters, timed
from mpsprobe_exporters.traces.chrome import facts, header, worth_drawing
from mpsprobe_exporters.traces.counters import Curve
from mpsprobe_exporters.traces.dialects import STEP_PREFIX, TIMED_STEP, tensorboard
from mpsprobe_exporters.traces.encoding import LONGEST_NS, exact, text, ticks
from mpsprobe_exporters.traces.layout import SEPARATOR, Layout, framed, pieces, title, where
from mpsprobe_exporters.traces.links import OPERATORS
from mpsprobe_exporters.traces.slices import Slices
from mpsprobe_exporters.traces.swallowed import swallowed

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileCell, ProfileReport, Trace
    from mpsprobe.schemas.report import Report

MOST_DEVICES = 64
FIRST_HOST = 1000  # the number of the first process of the host; smaller ones are devices
LONGEST_NAME = 80
WINDOW = "PyTorch Profiler (0)"  # the event that tells the reader where the profile begins and ends


class TensorboardExporter:
    """Writes ``RUN/WORKER.pt.trace.json.gz`` for each cell that has a trace or timed steps."""

    def files(self, report: Report) -> Iterable[tuple[str, Iterable[bytes]]]:
        """Each worker's file. The run is called after the first workload and its phase.

        Raises:
            ReportError: there is nothing to draw.
        """
        profile = profile_of(report, "tensorboard")
        cells = worth_drawing(profile)
        run = _safe(f"{cells[0].workload}-{cells[0].phase}")
        taken: set[str] = set()
        several = len({(one.workload, one.phase) for one in cells}) > 1
        for number, cell in enumerate(cells, 1):
            # The reader shows the first name first, so they are counted.
            worker = _free(_safe(f"{number}-{title(cell) if several else where(cell)}"), taken)
            yield f"{run}/{worker}.pt.trace.json.gz", _gzipped(_worker(profile, cell))


def _worker(report: ProfileReport, cell: ProfileCell) -> Iterator[str]:
    layout = Layout()
    trace = cell.trace if cell.trace is not None and cell.trace.start_ns else None
    hosts = _numbered(trace, "host", FIRST_HOST, None)
    devices = _numbered(trace, "device", 0, MOST_DEVICES - 1)
    main = next(iter(hosts.values()), FIRST_HOST)
    named = list(hosts.values()) or [main]  # what the reader needs lies on a host, also where the trace has none
    head = header(report, [facts(cell, [*named, *devices.values()], None)])
    shown = title(cell)
    for number in named:
        layout.process(number, f"{shown}: host", None if trace is not None else timed.MADE)
    for number in devices.values():
        layout.process(number, f"{shown}: {cell.device.upper()}")
    lines = _profiled(trace, cell, layout, hosts, devices) if trace is not None else _timed(cell, layout, main)
    return framed(head, lines)


def _profiled(
    trace: Trace, cell: ProfileCell, layout: Layout, hosts: dict[int, int], devices: dict[int, int]
) -> Iterator[str]:
    numbers = [(hosts if track.kind == "host" else devices)[track.process] for track in trace.tracks]
    rows = [layout.row(number, track.name) for number, track in zip(numbers, trace.tracks, strict=True)]
    no_steps = swallowed(trace)
    slices = Slices(trace, rows, numbers, tensorboard(), no_steps=no_steps)
    last = max(one + spent for one, spent in zip(trace.start_ns, trace.duration_ns, strict=True))
    last = min(last - slices.base_ns, LONGEST_NS)
    host = next(iter(hosts.values()), FIRST_HOST)
    whole = layout.row(host, "the whole trace")
    yield "".join(layout.taken())
    begins = zip(trace.category, trace.start_ns, strict=True)
    if not any(trace.categories[kind] == "step" and start not in no_steps for kind, start in begins):
        # Without one the reader takes the operators of the host for the step.
        yield _event(f"{STEP_PREFIX}0", "user_annotation", whole.place, 0, last)
    yield _window(last)
    if not any(trace.categories[one] in OPERATORS for one in set(trace.category)):
        yield _placeholder(whole.place)
    yield from slices.lines(layout)
    curves = [Curve(one.name, one.times_ns, one.values) for one in trace.counters]
    base_ns, thread = slices.base_ns, _main_thread(trace)
    if not any(one.name.removeprefix(counters.CPU_PREFIX) == "allocated_bytes" for one in curves) and cell.memory:
        # Of the timed steps, which no operator of this trace can be charged with: on a row without any.
        yield from _allocations(counters.memory(cell.memory.curve), whole.place, 0, cell, layout, host)
    else:
        place = rows[thread].place if thread is not None else whole.place
        yield from _allocations(curves, place, base_ns, cell, layout, host)
    yield from pieces(counters.lines(curves, host, base_ns), layout)


def _timed(cell: ProfileCell, layout: Layout, host: int) -> Iterator[str]:
    """The timed steps as steps: the overview has their lengths, and memory its curve."""
    found = timed.timed(cell)
    assert found is not None
    number = start = latest = 0
    for name, slices in found.rows.items():
        place = layout.row(host, name).place
        yield "".join(layout.taken())
        timed_row = any(one.category == TIMED_STEP for one in slices)
        start = latest if timed_row else 0  # steps of several processes one after the other: the reader adds them up
        for one in slices:
            step = one.category == TIMED_STEP
            shown = f"{STEP_PREFIX}{number}" if step else one.name
            number += step
            latest = max(latest, start + one.begin + one.duration)
            category = "user_annotation" if step else one.category
            yield _event(shown, category, place, start + one.begin, start + one.begin + one.duration)
    yield _window(latest)
    note = layout.row(host, "note").place
    yield "".join(layout.taken())
    yield _placeholder(note)
    if cell.memory is not None:
        curves = timed.as_curves(found, counters.memory(cell.memory.curve))
        yield from _allocations(curves, place, 0, cell, layout, host)
        yield from pieces(counters.lines(curves, host, 0), layout)


def _allocations(
    curves: list[Curve], place: str, base_ns: int, cell: ProfileCell, layout: Layout, host: int
) -> Iterator[str]:
    """Memory as the reader draws it; what is held at first stands on a row of its own."""
    found = counters.allocations(
        curves, place, base_ns, cell.device == "cpu", lambda: layout.row(host, "memory at first").place
    )
    return pieces(found, layout)


def _event(name: str, category: str, place: str, begin: int, end: int) -> str:
    begin = min(begin, LONGEST_NS)
    first, last = ticks(begin), ticks(min(max(end, begin + 1), LONGEST_NS + 1))
    return (
        f'{SEPARATOR}{{"ph":"X","cat":{text(category)},"name":{text(name)},{place},'
        f'"ts":{exact(first)},"dur":{exact(last - first)}}}'
    )


def _window(last: int) -> str:
    """From a microsecond on the reader can divide the time into buckets."""
    return _event(WINDOW, "Trace", '"pid":"Spans","tid":"PyTorch Profiler"', 0, max(last, 1000))


def _placeholder(place: str) -> str:
    """The reader's operator view breaks on a worker without operators, and the other views with it."""
    line = _event("(no operators were profiled: --probe operators)", "cpu_op", place, 0, 1)
    return f'{line[:-1]},"args":{{"placeholder":"yes"}}}}'


def _numbered(trace: Trace | None, kind: str, first: int, most: int | None) -> dict[int, int]:
    """The number in the file for each process of ``kind``; the ones after ``most`` share it."""
    found = dict.fromkeys(track.process for track in trace.tracks if track.kind == kind) if trace is not None else {}
    return {process: first + (index if most is None else min(index, most)) for index, process in enumerate(found)}


def _main_thread(trace: Trace) -> int | None:
    """The track of the host on which most steps are, else the one with most events: whose operators allocate."""
    counts: dict[tuple[bool, int], int] = {}
    steps = trace.categories.index("step") if "step" in trace.categories else -1
    for track, category in zip(trace.track, trace.category, strict=True):
        key = (category == steps, track)
        counts[key] = counts.get(key, 0) + 1
    hosts = [
        (is_step, count, track) for (is_step, track), count in counts.items() if trace.tracks[track].kind == "host"
    ]
    return max(hosts)[2] if hosts else None


def _safe(name: str) -> str:
    """``name`` as a file name everywhere, without the dot that the reader takes for the beginning of a number."""
    return re.sub(r"[^A-Za-z0-9_=+-]+", "-", name)[:LONGEST_NAME].strip("-") or "report"


def _free(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free.lower() in taken:  # file systems that do not tell capitals apart
        number += 1
        free = f"{name}-{number}"
    taken.add(free.lower())
    return free


def _gzipped(parts: Iterable[str]) -> Iterator[bytes]:
    """The same for the same text: the header holds no time."""
    packer = zlib.compressobj(level=6, wbits=31)
    for part in parts:
        yield packer.compress(part.encode("ascii"))
    yield packer.flush()
