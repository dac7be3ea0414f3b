"""The blocks of a comparison on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from mpsprobe_exporters import comparison_answer as words
from mpsprobe_exporters.terminal.columns import fitting
from mpsprobe_exporters.terminal.folding import fold_name
from mpsprobe_exporters.terminal.operator_table import new_table
from mpsprobe_exporters.terminal.sections import BLANK, indented, section

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mpsprobe.schemas import ComparedCell, ComparisonReport

STYLES = {
    "slower": "bold red",
    "larger": "bold red",
    "worse": "bold red",
    "faster": "green",
    "smaller": "green",
    "better": "green",
}
EXPENDABLE = ("p", "95 % interval", "old", "ratio")
NARROW_NAME = 19
QUIET_GAPS = 16  # between the columns of steps


def body(report: ComparisonReport, width: int) -> Iterator[RenderableType]:
    """What to print on ``width`` columns, block by block."""
    yield Text(words.short_answer(report), style="bold red" if report.regressions else "bold")
    yield Text(words.side_line(report))
    if report.conditions:
        yield from section(words.conditions_title(report), words.condition_lines(report), "bold red")
    loud, quiet = words.parted(report)
    for cell in loud:
        yield from _cell(report, cell, width)
    if quiet:
        yield from section(words.QUIET_TITLE)
        rows = words.quiet_rows(quiet)
        room = max(NARROW_NAME, width - max(sum(map(len, row[1:])) for row in rows) - QUIET_GAPS)
        folded = [("\n".join(textwrap.wrap(row[0], room) or [""]), *row[1:]) for row in rows]
        yield _table(("configuration", *words.TITLES[1:]), folded, width, EXPENDABLE)
        yield from map(indented, words.quiet_notes(quiet))
    yield from _coverage(report, width)
    if report.unpaired:
        yield from section(words.UNPAIRED, words.unpaired_lines(report), "bold red")
    lines = words.method_lines(report)
    if lines:
        yield BLANK
        yield from (Text(line) for line in lines)


def _cell(report: ComparisonReport, cell: ComparedCell, width: int) -> Iterator[RenderableType]:
    yield from section(words.configuration(cell))
    rows, left = words.shown_quantities(report, cell)
    if rows:
        yield _table(words.TITLES, rows, width, EXPENDABLE)
    notes = [*([left] if left else []), *words.cell_notes(cell)]
    yield from map(indented, notes)
    operators = words.operator_rows(cell)
    if operators:
        yield BLANK
        yield Text(words.operators_title(cell))
        folded = [("\n".join(fold_name(row[0], max(NARROW_NAME, width - 50))), *row[1:]) for row in operators]
        yield _table(words.OPERATOR_TITLES, folded, width, ("calls", "old"))
    fallbacks = words.fallback_lines(cell)
    if fallbacks:
        yield from section(words.FALLBACKS, fallbacks, style="none")


def _coverage(report: ComparisonReport, width: int) -> Iterator[RenderableType]:
    yield from (Text(line, style="bold red") for line in words.failure_lines(report))
    found = words.verdict_rows(report)
    if found:
        folded = [("\n".join(fold_name(row[0], max(NARROW_NAME, width - 50))), *row[1:]) for row in found]
        yield from section(words.VERDICTS)
        yield _table(("operator", "torch", "old", "new", "change"), folded, width, ("torch", "old"), right=False)
    advisories = words.advisory_lines(report)
    if advisories:
        yield from section(words.ADVISORIES, advisories)


def _table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], width: int, expendable: Sequence[str], right: bool = True
) -> RenderableType:
    """The columns in which anything stands and for which there is room; the first and the last always stay."""
    shown = fitting(titles, rows, width, expendable)
    numbers = tuple(position for position, index in enumerate(shown) if right and 0 < index < len(titles) - 1)
    made = new_table(*(titles[index] for index in shown), right=numbers)
    for row in rows:
        made.add_row(*(Text(row[index], style=STYLES.get(row[index], "none")) for index in shown))
    return made
