"""The exporter ``html``: the document of a report as a page; a profile's has charts of its own besides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters.html.drawing import Further, chooser, views
from mpsprobe_exporters.html.notebook import fragment
from mpsprobe_exporters.html.page import page
from mpsprobe_exporters.html.views import memory, modules, predicted, steps, trace
from mpsprobe_exporters.reports import document_of
from mpsprobe_exporters.reports.memory import TITLE as MEMORY
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, ProfileCell, ProfileReport
    from mpsprobe.schemas.report import Report
    from mpsprobe_exporters.html.markup import Markup

# What a browser draws and scrolls without effort, and what keeps the file of a usual report below 2 MB: an event takes
# some 25 bytes.
MOST_EVENTS = 20_000
MOST_EVENTS_OF_ALL = 40_000
FEWEST_EVENTS = 1_000


class HtmlExporter:
    """One self-contained file: it fetches nothing and opens from a disk, an attachment or a build's artifacts."""

    def render(self, report: Report) -> str:
        """The document.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        read = supported_report(report, "html")
        found = document_of(read)
        own = _further(read) if read.kind == "profile" else _predicted(read) if read.kind == "coverage" else {}
        lines = [f"{line}." for line in found.lines]
        return page(found.title, f"{found.headline}.", lines, list(views(found, own)), chooser(found), found.tone)

    def render_for_notebook(self, report: Report) -> str:
        """The short answer as a fragment of HTML, for a cell of a notebook.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        return fragment(document_of(supported_report(report, "html")))


def _further(report: ProfileReport) -> Further:
    """What ``views`` puts first in each view; the views are in the order of the navigation."""
    return {
        "Steps": list(_each(report, steps.steps)),
        "Operators": [],
        "Kernels": [],
        "Modules": list(_each(report, modules.modules)),
        "Memory": list(_each(report, memory.memory)),
        "Fallbacks": [],
        "Trace": list(_traces(report)),
    }


def _predicted(report: CoverageReport) -> Further:
    made = predicted.predicted(report)
    return {MEMORY: [(None, made)]} if made else {}


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
