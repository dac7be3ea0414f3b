"""GitHub-flavoured Markdown: what one pastes into an issue, a pull request or a job summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters import markdown_drawing, reports
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report


class MarkdownExporter:
    """The short answer, what to do, and what it follows from."""

    def render(self, report: Report) -> str:
        """The document.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        read = reports.document_of(supported_report(report, "markdown"))
        return "\n\n".join(markdown_drawing.blocks(read)) + "\n"
