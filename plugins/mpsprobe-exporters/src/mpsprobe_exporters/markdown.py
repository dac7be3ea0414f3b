"""GitHub-flavoured Markdown: what one pastes into an issue, a pull request or a job summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters import comparison_markdown, markdown_drawing, profile_markdown, reports
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report


class MarkdownExporter:
    """The short answer, the operators, and what to do about each finding."""

    def render(self, report: Report) -> str:
        """The document.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        read = supported_report(report, "markdown")
        if read.kind == "profile":
            return "\n\n".join(profile_markdown.blocks(read)) + "\n"
        if read.kind == "comparison":
            return "\n\n".join(comparison_markdown.blocks(read)) + "\n"
        return "\n\n".join(markdown_drawing.blocks(reports.document_of(read))) + "\n"
