"""The report on a terminal: the short answer, what to do, and what it follows from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters import reports
from mpsprobe_exporters.supported import supported_report
from mpsprobe_exporters.terminal.drawing import text_of
from mpsprobe_exporters.terminal.screen import Screen, on_terminal

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report

FILE_COLUMNS = 100


class TableExporter:
    """Draws as text.

    Args:
        width: columns to draw in; by default 100, so that a file looks the same wherever it was made.
        color: whether to write colours, as ANSI sequences.
        encoding: the one that the text must fit into.
        everything: whether to show what nobody needs to act, such as native operators, which a file always has.
    """

    def __init__(
        self, width: int | None = None, color: bool = False, encoding: str = "utf-8", everything: bool = True
    ) -> None:
        self._screen = Screen(width or FILE_COLUMNS, color, encoding)
        self._everything = everything

    def render(self, report: Report) -> str:
        """The text for a file: no colours unless asked for.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        return _drawn(report, self._screen, self._everything)

    def render_for_terminal(self, report: Report, everything: bool = False) -> str:
        """The text for standard output: as wide, as coloured and in such characters as it can show.

        Args:
            report: what is drawn.
            everything: ``--all``.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        return _drawn(report, on_terminal(), everything)

    def headline(self, report: Report) -> str:
        """The one sentence that a report begins with.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        return reports.document_of(supported_report(report, "table")).headline


def _drawn(report: Report, screen: Screen, everything: bool) -> str:
    return text_of(reports.document_of(supported_report(report, "table")), screen, everything=everything)
