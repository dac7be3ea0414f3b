"""The blocks of a profile on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from mpsprobe_exporters import profile_answer, profile_sections, speed_ups
from mpsprobe_exporters.terminal.columns import fitting, width_of
from mpsprobe_exporters.terminal.folding import fold_name
from mpsprobe_exporters.terminal.operator_table import GAP, new_table
from mpsprobe_exporters.terminal.sections import BLANK, indented, section

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mpsprobe.schemas import ProfileReport
    from mpsprobe_exporters.profile_sections import Section

# What goes first when the screen is narrow; what is not here always stays.
EXPENDABLE = ("spread", "first call", "tokens/s", "95 % interval", "samples/s", "seq", "speed", "batch", "phase")
NARROWEST_NAME = 16
LONGEST_NAME = 48


def body(report: ProfileReport, width: int) -> Iterator[RenderableType]:
    """What to print on ``width`` columns, block by block."""
    if not report.complete:
        yield Text(profile_answer.INTERRUPTED, style="bold red")
    yield Text(profile_answer.short_answer(report), style="bold")
    yield from map(Text, profile_answer.workload_lines(report))
    yield from map(Text, profile_answer.device_lines(report))
    yield Text(profile_answer.method_line(report))
    yield BLANK
    yield _table(report, width)
    yield from _bars(report, width)
    if advice := profile_sections.recommendations(report):
        yield from section("What to do", advice)
    for one in profile_sections.sections(report):
        tables = [_section_table(one, width - GAP)] if one.rows else []
        yield from section(one.title, [*tables, *one.lines])
    if remarks := [line for line in profile_answer.remarks(report) if line != profile_answer.INTERRUPTED]:
        yield from section("Remarks", remarks)


def _table(report: ProfileReport, width: int) -> RenderableType:
    found = profile_answer.rows(report)
    titles = profile_answer.TITLES
    shortened = [("x" * min(cell_len(row[0]), 2 * NARROWEST_NAME), *row[1:]) for row in found]
    shown = fitting(titles, shortened, width, EXPENDABLE)
    room = max(NARROWEST_NAME, width - sum(width_of(titles, found, index) + GAP for index in shown if index))
    made = new_table(*(titles[index] for index in shown), right=tuple(range(1, len(shown))))
    for row in found:
        cells = ("\n".join(_folded(row[index], room, code=True)) if index == 0 else row[index] for index in shown)
        made.add_row(*(Text(text, style="bold red" if text == profile_answer.FAILED else "none") for text in cells))
    return made


def _bars(report: ProfileReport, width: int) -> Iterator[RenderableType]:
    """A bar for each configuration; where a line has no room for all of it, the words go before the bar does."""
    found = speed_ups.speed_ups(report)
    if not found:
        return
    yield from section(speed_ups.title(report))
    shown = found[: speed_ups.MOST]
    largest = max(1.0, *(one.ratio for one in shown))
    words = [one.words for one in shown]
    labels = [one.label for one in shown]
    longest = min(max(map(cell_len, labels)), LONGEST_NAME)
    if width - longest - max(map(cell_len, words)) - 3 * GAP < speed_ups.NARROWEST:
        words = [text.partition(" (")[0] for text in words]
    taken = max(map(cell_len, words)) + 3 * GAP
    longest = max(NARROWEST_NAME, min(longest, width - taken - speed_ups.NARROWEST))
    columns = max(speed_ups.NARROWEST, min(width - taken - longest, speed_ups.WIDEST))
    for label, text, one in zip(labels, words, shown, strict=True):
        *above, last = _folded(label, longest, code=False)
        yield from map(indented, above)
        drawn = speed_ups.bar(one.ratio, largest, columns)
        gap = " " * (longest - cell_len(last) + GAP)
        after = " " * (columns - cell_len(drawn) + GAP)
        yield indented(Text.assemble(last, gap, (drawn, "green"), after, text))
    left = len(found) - len(shown)
    if left:
        yield indented(f"and {left:,} more")


def _section_table(section: Section, width: int) -> RenderableType:
    """The first column is folded before another is given up only as far as a name can still be read."""
    most = LONGEST_NAME if section.code else 2 * NARROWEST_NAME  # words are folded at less loss than names
    narrow = [("x" * min(cell_len(row[0]), most), *row[1:]) for row in section.rows]
    titles = (section.titles[0][:NARROWEST_NAME], *section.titles[1:])
    shown = fitting(titles, narrow, width, section.expendable)
    others = sum(width_of(titles, section.rows, index) + GAP for index in shown if index)
    room = max(NARROWEST_NAME, width - others)
    right = tuple(place for place, index in enumerate(shown) if index and index not in section.text)
    head = "\n".join(fold_name(section.titles[0], room, 0)) if cell_len(section.titles[0]) > room else section.titles[0]
    made = new_table(head, *(section.titles[index] for index in shown if index), right=right)
    for row in section.rows:
        name = "\n".join(_folded(row[0], room, section.code))
        made.add_row(Text(name), *(Text(row[index]) for index in shown if index))
    return made


def _folded(name: str, width: int, code: bool) -> list[str]:
    """A name from code at its joints, words between words; what is longer than a line anywhere."""
    lines = [name] if code else textwrap.wrap(name, width, break_long_words=False, break_on_hyphens=False) or [name]
    return [part for line in lines for part in fold_name(line, width)]
