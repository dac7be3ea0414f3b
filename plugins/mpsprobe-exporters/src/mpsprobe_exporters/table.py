"""The report on a terminal: the short answer, what to do, and what it follows from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters import reports
from mpsprobe_exporters.supported import supported_report
from mpsprobe_exporters.terminal.drawing import text_of
from mpsprobe_exporters.terminal.screen import Screen, on_terminal

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report
    from mpsprobe_exporters.document import Document

FILE_COLUMNS = 100


class TableExporter:
    """Draws as text, ``width`` columns wide: by default as many in each file, wherever it was made.

    ``everything``: what nobody needs to act is shown too, such as native operators; a file always has it.
    """

    def __init__(
        self, width: int | None = None, color: bool = False, encoding: str = "utf-8", everything: bool = True
    ) -> None:
        self._screen = Screen(width or FILE_COLUMNS, color, encoding)
        self._everything = everything

    def render(self, report: Report) -> str:
        return text_of(_document(report), self._screen, everything=self._everything)

    def render_for_terminal(self, report: Report, everything: bool = False) -> str:
        """The text for standard output: as wide, as coloured and in such characters as it can show."""
        return text_of(_document(report), on_terminal(), everything=everything)

    def headline(self, report: Report) -> str:
        return _document(report).headline


def _document(report: Report) -> Document:
    return reports.document_of(supported_report(report, "table"))
