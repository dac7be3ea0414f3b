"""The exporter ``html``: the document of a report as a page; a profile's has charts of its own besides."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mpsprobe_exporters.html import charts
from mpsprobe_exporters.html.drawing import Further, chooser, in_notebook, views
from mpsprobe_exporters.html.page import page
from mpsprobe_exporters.reports import document_of
from mpsprobe_exporters.reports.memory import TITLE as MEMORY
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileCell, ProfileReport
    from mpsprobe.schemas.report import Report
    from mpsprobe_exporters.html.markup import Markup
    from mpsprobe_exporters.supported import SupportedReport

# What a browser draws and scrolls without effort, and what keeps the file of a usual report below 2 MB: an event takes
# some 25 bytes.
MOST_EVENTS, MOST_EVENTS_OF_ALL, FEWEST_EVENTS = 20_000, 40_000, 1_000


class HtmlExporter:
    """One self-contained file: it fetches nothing and opens from a disk, an attachment or a build's artifacts."""

    def render(self, report: Report) -> str:
        read: SupportedReport = supported_report(report, "html")
        document = document_of(read)
        return page(document, views(document, _further(read)), chooser(document))

    def render_for_notebook(self, report: Report) -> str:
        return in_notebook(document_of(supported_report(report, "html")))


def _further(report: SupportedReport) -> Further:
    """What ``views`` puts first in each view; the views are in the order of the navigation."""
    if report.kind == "coverage":
        return {MEMORY: [(None, chart)] if (chart := charts.predicted(report)) else []}
    if report.kind != "profile":
        return {}
    several = sum(cell.trace is not None and bool(cell.trace.start_ns) for cell in report.cells)
    most = max(FEWEST_EVENTS, min(MOST_EVENTS, MOST_EVENTS_OF_ALL // max(1, several)))  # they share the room
    return {
        "Steps": _each(report, charts.steps),
        "Operators": [],
        "Kernels": [],
        "Modules": _each(report, charts.modules),
        "Memory": _each(report, lambda cell: charts.memory(report, cell)),
        "Fallbacks": [],
        "Trace": _each(report, lambda cell: charts.timeline(cell, most)),
    }


def _each(report: ProfileReport, draw: Callable[[ProfileCell], Markup]) -> list[tuple[int, Markup]]:
    return [(index, chart) for index, cell in enumerate(report.cells) if (chart := draw(cell))]
