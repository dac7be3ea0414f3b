"""The exporter ``html``: chooses the page by the kind of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters.html.comparison_page import comparison_page
from mpsprobe_exporters.html.drawing import views
from mpsprobe_exporters.html.page import page
from mpsprobe_exporters.html.profile_page import profile_page
from mpsprobe_exporters.reports import document_of
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report


class HtmlExporter:
    """One self-contained file: it fetches nothing and opens from a disk, an attachment or a build's artifacts."""

    def render(self, report: Report) -> str:
        """The document.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        read = supported_report(report, "html")
        if read.kind == "comparison":
            return comparison_page(read)
        if read.kind == "profile":
            return profile_page(read)
        found = document_of(read)
        return page(found.title, f"{found.headline}.", [f"{line}." for line in found.lines], list(views(found)))
