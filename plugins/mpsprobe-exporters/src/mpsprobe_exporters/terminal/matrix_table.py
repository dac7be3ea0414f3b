"""Releases and operators: a grid where the screen is wide enough, else each operator's history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from mpsprobe_exporters import release_grid
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.terminal.folding import fold_name
from mpsprobe_exporters.terminal.operator_table import GAP, new_table
from mpsprobe_exporters.terminal.verdict_styles import STYLES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mpsprobe.schemas import MatrixReport

LONGEST_NAME = 48
# The one verdict that is wider than a release's number.
SHORT = {"unsupported": "unsupp."}


def matrix_table(report: MatrixReport, width: int) -> Iterator[RenderableType]:
    """The blocks for ``width`` columns."""
    if not report.releases:
        return
    columns = release_grid.columns(report)
    operators = release_grid.operators(report)
    titles = [column.title.replace("-", "-\n") for column in columns]
    name_width = min(LONGEST_NAME, max(len(one_line(name)) for name in ["native operators", *operators]))
    needed = name_width + sum(GAP + max(10, *map(len, title.split("\n"))) for title in titles)
    if needed <= width:
        yield _grid(report, columns, operators, titles, name_width)
    else:
        yield _counts(columns)
        if operators:
            yield Text()
            yield _histories(report, operators, width)
    legends = release_grid.legends(report)
    if legends:
        yield Text("; ".join(legends))


def _grid(
    report: MatrixReport,
    columns: list[release_grid.Column],
    operators: list[str],
    titles: list[str],
    name_width: int,
) -> RenderableType:
    made = new_table("operator", *titles)
    for title, cells in release_grid.whole_rows(columns):
        made.add_row(title, *cells, style="bold")
    for operator in operators:
        name = "\n".join(fold_name(one_line(operator), name_width))
        verdicts = [release_grid.verdict_at(column.cell, operator) for column in columns]
        made.add_row(Text(name), *(Text(SHORT.get(v, v), style=STYLES.get(v, "none")) for v in verdicts))
    return made


def _counts(columns: list[release_grid.Column]) -> RenderableType:
    """One row for each range of releases."""
    made = new_table("torch", "native", "not native", right=(1,), wrapped=(2,))
    for column in columns:
        made.add_row(Text(column.title), release_grid.native_count(column.cell), release_grid.not_native(column.cell))
    return made


def _histories(report: MatrixReport, operators: list[str], width: int) -> RenderableType:
    """One row for each operator: where it is not native, oldest release first."""
    histories = [release_grid.history(report, operator) for operator in operators]
    widest = max(len(f"unsupported {span}") for history in histories for span, _ in history)
    made = new_table("operator", "by release", wrapped=(1,))
    for operator, history in zip(operators, histories, strict=True):
        lines = Text("\n").join(Text.assemble((v, STYLES.get(v, "none")), f" {span}") for span, v in history)
        made.add_row(Text("\n".join(fold_name(one_line(operator), max(16, width - widest - GAP)))), lines)
    return made
