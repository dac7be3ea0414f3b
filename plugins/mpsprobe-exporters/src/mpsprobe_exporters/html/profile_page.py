"""What a page of a profile has besides its document: charts of steps and memory, the modules as a tree, time lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters.html.views import memory, modules, steps, trace

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileCell, ProfileReport
    from mpsprobe_exporters.html.drawing import Further
    from mpsprobe_exporters.html.markup import Markup

# What a browser draws and scrolls without effort, and what keeps the file of a usual report below 2 MB: an event takes
# some 25 bytes.
MOST_EVENTS = 20_000
MOST_EVENTS_OF_ALL = 40_000
FEWEST_EVENTS = 1_000


def further(report: ProfileReport) -> Further:
    """What ``drawing.views`` puts first in each view; the views are in the order of the navigation."""
    return {
        "Steps": list(_each(report, steps.steps)),
        "Operators": [],
        "Kernels": [],
        "Modules": list(_each(report, modules.modules)),
        "Memory": list(_each(report, memory.memory)),
        "Fallbacks": [],
        "Trace": list(_traces(report)),
    }


def _each(
    report: ProfileReport, draw: Callable[[ProfileReport, ProfileCell], Markup | None]
) -> Iterator[tuple[int, Markup]]:
    for index, cell in enumerate(report.cells):
        made = draw(report, cell)
        if made:
            yield index, made


def _traces(report: ProfileReport) -> Iterator[tuple[int, Markup]]:
    """A time line for each configuration that has a trace; many of them share the room."""
    found = [index for index, cell in enumerate(report.cells) if cell.trace is not None and cell.trace.start_ns]
    most = max(FEWEST_EVENTS, min(MOST_EVENTS, MOST_EVENTS_OF_ALL // max(1, len(found))))
    for index in found:
        made = trace.trace(report.cells[index], most)
        if made:
            yield index, made
