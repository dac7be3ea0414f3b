"""The blocks of a profile on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.padding import Padding
from rich.text import Text

from mpsprobe_exporters import profile_answer
from mpsprobe_exporters.terminal.operator_table import GAP, new_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mpsprobe.schemas import ProfileReport

# What goes first when the screen is narrow; what is not here always stays.
EXPENDABLE = ("spread", "first call", "tokens/s", "95 % interval", "samples/s")
BLANK = Text()


def body(report: ProfileReport, width: int) -> Iterator[RenderableType]:
    """What to print on ``width`` columns, block by block."""
    if not report.complete:
        yield Text(profile_answer.INTERRUPTED, style="bold red")
    yield Text(profile_answer.short_answer(report), style="bold")
    for line in profile_answer.workload_lines(report):
        yield Text(line)
    for line in profile_answer.device_lines(report):
        yield Text(line)
    yield Text(profile_answer.method_line(report))
    yield BLANK
    yield _table(report, width)
    for title, lines in (("Phases", profile_answer.phase_lines(report)), ("Remarks", _remarks(report))):
        if lines:
            yield BLANK
            yield Text(title, style="bold")
            yield from (Padding(Text(line), (0, 0, 0, 2)) for line in lines)


def _remarks(report: ProfileReport) -> list[str]:
    return [line for line in profile_answer.remarks(report) if line != profile_answer.INTERRUPTED]


def _table(report: ProfileReport, width: int) -> RenderableType:
    found = profile_answer.rows(report)
    shown = profile_answer.shown_columns(found)
    for title in EXPENDABLE:
        if _needed(found, shown) <= width:
            break
        shown = [index for index in shown if profile_answer.TITLES[index] != title]
    titles = [profile_answer.TITLES[index] for index in shown]
    made = new_table(*titles, right=tuple(range(1, len(shown))))
    for row in found:
        made.add_row(*(Text(row[index], style=_style(row[index])) for index in shown))
    return made


def _needed(found: list[profile_answer.Row], shown: list[int]) -> int:
    return sum(max(cell_len(row[index]) for row in [profile_answer.TITLES, *found]) + GAP for index in shown)


def _style(text: str) -> str:
    return "bold red" if text == "failed" else "none"
