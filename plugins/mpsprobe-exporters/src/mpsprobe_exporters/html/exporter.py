"""The exporter ``html``: the document of a report as a page; a profile's has charts of its own besides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters.html.drawing import Further, chooser, views
from mpsprobe_exporters.html.notebook import fragment
from mpsprobe_exporters.html.page import page
from mpsprobe_exporters.html.profile_page import further
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
        found = document_of(read)
        own: Further = further(read) if read.kind == "profile" else {}
        lines = [f"{line}." for line in found.lines]
        return page(found.title, f"{found.headline}.", lines, list(views(found, own)), chooser(found), found.tone)

    def render_for_notebook(self, report: Report) -> str:
        """The short answer as a fragment of HTML, for a cell of a notebook.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        return fragment(document_of(supported_report(report, "html")))
