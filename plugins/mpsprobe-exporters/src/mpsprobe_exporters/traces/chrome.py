"""The Chrome trace format (JSON), as chrome://tracing and Perfetto play it.

Format: "Trace Event Format" of the Chromium project. Each cell is a process for each one of the host, one for each
queue's device, and one for the timed steps, which come first because they ran first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import ReportError
from mpsprobe_exporters.reports.configurations import KEY
from mpsprobe_exporters.supported import supported_report
from mpsprobe_exporters.traces import timed
from mpsprobe_exporters.traces.encoding import CATEGORIES, LONGEST_NS, SEPARATOR, THOUSANDTHS, in_utf_8, pairs, text
from mpsprobe_exporters.traces.layout import AT_ONCE, Layout, Row, framed, title
from mpsprobe_exporters.traces.slices import Slices, kept

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileCell, ProfileReport, Trace
    from mpsprobe.schemas.report import Report

TAKEN = frozenset({"correlation"})


class ChromeExporter:
    """Writes what ``chrome://tracing``, Perfetto and ``mpsprobe import`` read."""

    def render(self, report: Report) -> str:
        return "".join(self.stream(report))

    def stream(self, report: Report) -> Iterator[str]:
        """The file in pieces of some hundred kilobytes; they take no more memory for more events."""
        profile: ProfileReport = supported_report(report, "chrome")
        layout = Layout()
        cells = [_Cell(cell, layout) for cell in worth_drawing(profile)]
        head = header(profile, [cell.about for cell in cells])
        yield from framed(head, (piece for cell in cells for piece in cell.pieces()))


class _Cell:
    def __init__(self, cell: ProfileCell, layout: Layout) -> None:
        self._cell, self._layout = cell, layout
        self._timed = timed.timed(cell)
        self._timed_process = None if self._timed is None else next(layout.processes)
        if self._timed_process is not None:
            label = timed.MADE if cell.trace is None else None
            layout.process(self._timed_process, f"{title(cell)}: timed steps", label)
        self._processes: dict[tuple[str, int], int] = {}
        for track in cell.trace.tracks if cell.trace is not None else []:
            if (track.kind, track.process) not in self._processes:
                number = self._processes[track.kind, track.process] = next(layout.processes)
                layout.process(number, f"{title(cell)}: {'host' if track.kind == 'host' else cell.device.upper()}")
        self.about = facts(cell, list(self._processes.values()), self._timed_process)

    def pieces(self) -> Iterator[str]:
        cell, layout, offset = self._cell, self._layout, 0
        if self._timed is not None and self._timed_process is not None:
            offset = self._timed.end_ns
            yield from layout.pieces(timed.lines(self._timed, self._timed_process, layout))
            curves = timed.memory(cell.memory.curve, self._timed.first_ns) if cell.memory is not None else []
            yield from layout.pieces(timed.counters(curves, self._timed_process, 0))
        if cell.trace is not None and self._processes:
            numbers = [self._processes[track.kind, track.process] for track in cell.trace.tracks]
            rows = [Row(layout, number, track.name) for number, track in zip(numbers, cell.trace.tracks, strict=True)]
            slices = Slices(cell.trace, offset, layout.flows)
            layout.flows += slices.flows
            yield from _events(cell.trace, slices, rows, cell.device, layout)
            host = next(iter(self._processes.values()))
            yield from layout.pieces(timed.counters(cell.trace.counters, host, slices.base_ns))
        layout.flows += 1


def _events(trace: Trace, slices: Slices, rows: Sequence[Row], device: str, layout: Layout) -> Iterator[str]:
    """A piece at a time, and the times put together from whole numbers: this loop decides how fast an export is."""
    launch = f"{device}_runtime" if device in ("cuda", "xpu", "mtia") else "privateuse1_runtime"
    # A fallback keeps its own name, so that a viewer can find it by its category.
    categories = [text({**CATEGORIES, "launch": launch}[category]) for category in trace.categories]
    base, latest, rest = slices.base_ns, LONGEST_NS, THOUSANDTHS
    arrow, on_host = slices.arrow, slices.on_host

    @kept
    def head(name: int, category: int) -> str:
        return f'{SEPARATOR}{{"ph":"X","cat":{categories[category]},"name":{text(trace.names[name])},'

    @kept
    def args(detail: int) -> str:
        return f',"args":{{{pairs(trace.details[detail], TAKEN)}}}}}'

    columns = iter(slices.columns())
    while some := list(islice(columns, AT_ONCE)):
        lines: list[str] = []
        append = lines.append
        for name, category, track, detail, flow, start, duration in some:
            begin = start - base
            end = begin + duration
            if end > latest:
                begin, end = min(begin, latest), latest
                duration = end - begin
            row = rows[track]
            ends = row.ends
            while ends and ends[-1] <= begin:
                ends.pop()
            if ends and end > ends[-1]:
                place = row.lane_for(begin, end)
            else:
                ends.append(end)
                place = row.place
            tail = "}" if detail < 0 else args(detail)
            if flow:
                known = tail[9:-2] if detail >= 0 else ""
                tail = f',"args":{{{known}{"," if known else ""}"correlation":{flow}}}}}'
                drawn = arrow(flow, on_host[track])
                if drawn:
                    tail += f'{drawn}{place},"ts":{begin // 1000}{rest[begin % 1000]}}}'
            append(
                f'{head(name, category)}{place},"ts":{begin // 1000}{rest[begin % 1000]},'
                f'"dur":{duration // 1000}{rest[duration % 1000]}{tail}'
            )
        yield "".join([*layout.taken(), *lines])


def worth_drawing(report: ProfileReport) -> list[ProfileCell]:
    cells = [cell for cell in report.cells if cell.steps or (cell.trace is not None and cell.trace.start_ns)]
    if not cells:
        raise ReportError(
            "the report has neither a trace nor timed steps: there is nothing to draw",
            "Measure again, with a trace: mpsprobe profile --probe operators",
        )
    return cells


def facts(cell: ProfileCell, processes: list[int], timed_process: int | None) -> dict[str, Any]:
    """What ``mpsprobe import`` needs to tell a cell's events from another's: the processes of its trace and steps."""
    key = {name: getattr(cell, name) for name in (*KEY, "profiled_steps")}
    return {**key, "processes": processes, "timed_process": timed_process}


def header(report: ProfileReport, cells: list[dict[str, Any]]) -> str:
    """The object around the events, without them: what ran where, and what a reader should know."""
    properties = [
        {"id": index, "name": device.name, "totalGlobalMem": device.memory_bytes or 0}
        for index, device in enumerate(device for device in report.devices if device.type != "cpu")
    ]
    devices = [{"type": device.type, "name": device.name} for device in report.devices]
    about = {"version": 1, "cells": cells, "devices": devices, "notes": report.notes}
    head = {"schemaVersion": 1, "displayTimeUnit": "ms", "deviceProperties": properties, "mpsprobe": about}
    return json.dumps(json.loads(in_utf_8(json.dumps(head, ensure_ascii=False))))
