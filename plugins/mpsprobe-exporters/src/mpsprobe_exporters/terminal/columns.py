"""Which columns of a table a screen has room for."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from mpsprobe_exporters.terminal.operator_table import GAP


def fitting(
    titles: Sequence[str], rows: Sequence[Sequence[str]], width: int, expendable: Sequence[str], needed: int = 0
) -> list[int]:
    """The numbers of the columns to show: those in which anything stands, without the expendable ones if need be.

    Args:
        titles: of all columns.
        rows: their cells; a cell may have several lines.
        width: columns of the screen.
        expendable: titles, those that go first in front.
        needed: how many columns of the screen something else takes.
    """
    shown = [index for index in range(len(titles)) if any(row[index] for row in rows)]
    for title in expendable:
        if needed + sum(width_of(titles, rows, index) + GAP for index in shown) <= width + GAP:
            break
        shown = [index for index in shown if titles[index] != title]
    return shown


def width_of(titles: Sequence[str], rows: Sequence[Sequence[str]], index: int) -> int:
    """How wide column ``index`` is."""
    return max(cell_len(line) for row in (titles, *rows) for line in row[index].split("\n"))
