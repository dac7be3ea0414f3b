"""The Chrome trace format (JSON), as chrome://tracing and Perfetto play it.

Format: "Trace Event Format" of the Chromium project. Each cell is a process for each one of the host, one for each
queue's device, and one for the timed steps, which come first because they ran first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import ReportError
from mpsprobe_exporters.reports.configurations import KEY
from mpsprobe_exporters.supported import profile_of
from mpsprobe_exporters.traces import counters, timed
from mpsprobe_exporters.traces.counters import Curve
from mpsprobe_exporters.traces.dialects import chrome
from mpsprobe_exporters.traces.layout import Layout, framed, pieces, title
from mpsprobe_exporters.traces.slices import Slices

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileCell, ProfileReport, Trace
    from mpsprobe.schemas.report import Report


class ChromeExporter:
    """Writes what ``chrome://tracing``, Perfetto and ``mpsprobe import`` read."""

    def render(self, report: Report) -> str:
        """The whole file as text."""
        return "".join(self.stream(report))

    def stream(self, report: Report) -> Iterator[str]:
        """The file in pieces of some hundred kilobytes; they take no more memory for more events.

        Raises:
            ReportError: there is nothing to draw.
        """
        profile = profile_of(report, "chrome")
        cells = worth_drawing(profile)
        layout = Layout()
        drawn = [_Cell(cell, layout) for cell in cells]
        head = header(profile, [cell.about() for cell in drawn])
        yield from framed(head, (piece for cell in drawn for piece in cell.lines(layout)))


class _Cell:
    """One cell and the processes that it is given."""

    def __init__(self, cell: ProfileCell, layout: Layout) -> None:
        self._cell = cell
        self._timed = timed.timed(cell)
        shown = title(cell)
        self._timed_process = layout.number() if self._timed is not None else None
        if self._timed_process is not None:
            label = timed.MADE if cell.trace is None else None
            layout.process(self._timed_process, f"{shown}: timed steps", label)
        self._processes: dict[tuple[str, int], int] = {}
        for track in cell.trace.tracks if cell.trace is not None else []:
            if (track.kind, track.process) not in self._processes:
                number = self._processes[track.kind, track.process] = layout.number()
                where = "host" if track.kind == "host" else cell.device.upper()
                layout.process(number, f"{shown}: {where}")

    def about(self) -> dict[str, Any]:
        """What ``mpsprobe import`` needs to tell this cell's events from another's."""
        return facts(self._cell, list(self._processes.values()), self._timed_process)

    def lines(self, layout: Layout) -> Iterator[str]:
        """All events of the cell, in pieces."""
        offset = 0
        curve = self._cell.memory.curve if self._cell.memory is not None else None
        if self._timed is not None and self._timed_process is not None:
            offset = self._timed.end_ns
            curves = timed.as_curves(self._timed, counters.memory(curve)) if curve is not None else []
            steps = timed.lines(self._timed, self._timed_process, layout)
            yield from pieces(steps, layout)
            yield from pieces(counters.lines(curves, self._timed_process, 0), layout)
        trace = self._cell.trace
        if trace is not None and self._processes:
            yield from self._profiled(trace, layout, offset)
        layout.flows += 1

    def _profiled(self, trace: Trace, layout: Layout, offset: int) -> Iterator[str]:
        numbers = [self._processes[track.kind, track.process] for track in trace.tracks]
        rows = [layout.row(number, track.name) for number, track in zip(numbers, trace.tracks, strict=True)]
        slices = Slices(trace, rows, numbers, chrome(self._cell.device), offset, layout.flows)
        layout.flows += slices.flows
        yield from slices.lines(layout)
        curves = (Curve(one.name, one.times_ns, one.values) for one in trace.counters)
        yield from pieces(counters.lines(curves, next(iter(self._processes.values())), slices.base_ns), layout)


def worth_drawing(report: ProfileReport) -> list[ProfileCell]:
    """The cells that have a trace or timed steps.

    Raises:
        ReportError: none has.
    """
    found = [cell for cell in report.cells if cell.steps or (cell.trace is not None and cell.trace.start_ns)]
    if not found:
        raise ReportError(
            "the report has neither a trace nor timed steps: there is nothing to draw",
            "Measure again, with a trace: mpsprobe profile --probe operators",
        )
    return found


def facts(cell: ProfileCell, processes: list[int], timed_process: int | None) -> dict[str, Any]:
    """Which processes of the file belong to a cell, those of its trace and that of its timed steps."""
    made = {key: getattr(cell, key) for key in (*KEY, "profiled_steps")}
    return {**made, "processes": processes, "timed_process": timed_process}


def header(report: ProfileReport, cells: list[dict[str, Any]]) -> str:
    """The object around the events, without them: what ran where, and what a reader should know."""
    properties = [
        {"id": index, "name": device.name, "totalGlobalMem": device.memory_bytes or 0}
        for index, device in enumerate(one for one in report.devices if one.type != "cpu")
    ]
    about = {
        "version": 1,
        "cells": cells,
        "devices": [{"type": device.type, "name": device.name} for device in report.devices],
        "notes": report.notes,
    }
    head = {"schemaVersion": 1, "displayTimeUnit": "ms", "deviceProperties": properties, "mpsprobe": about}
    return json.dumps(clean(head))


def clean(value: Any) -> Any:
    """``value`` with every string as UTF-8 can hold it."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {clean(key): clean(one) for key, one in value.items()}
    return [clean(one) for one in value] if isinstance(value, list) else value
