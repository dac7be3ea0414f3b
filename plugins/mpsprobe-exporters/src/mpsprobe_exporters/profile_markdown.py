"""A profile in GitHub-flavoured Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import profile_answer, profile_sections, speed_ups
from mpsprobe_exporters.markdown_text import bullets, code, prose, section, table

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileReport
    from mpsprobe_exporters.profile_sections import Section

BAR = 20  # columns of the longest bar


def blocks(report: ProfileReport) -> Iterator[str]:
    """The blocks of the document, from the short answer to the remarks."""
    yield f"**{prose(profile_answer.short_answer(report))}.**"
    yield "\n".join(
        f"{prose(line)}." for line in (*profile_answer.workload_lines(report), profile_answer.method_line(report))
    )
    yield bullets(profile_answer.device_lines(report))
    found = profile_answer.rows(report)
    shown = profile_answer.shown_columns(found)
    titles = [profile_answer.TITLES[index] for index in shown]
    yield "\n".join(table(titles, ([prose(row[i]) for i in shown] for row in found), right=range(1, len(shown))))
    yield from _bars(report)
    yield from section("What to do", profile_sections.recommendations(report))
    for one in profile_sections.sections(report):
        yield from _section(one)
    yield from section("Remarks", profile_answer.remarks(report))


def _bars(report: ProfileReport) -> Iterator[str]:
    found = speed_ups.speed_ups(report)[: speed_ups.MOST]
    if not found:
        return
    largest = max(1.0, *(one.ratio for one in found))
    rows = ((prose(one.label), speed_ups.bar(one.ratio, largest, BAR), prose(one.words)) for one in found)
    yield f"### {prose(speed_ups.title(report))}"
    yield "\n".join(table(("configuration", "", "speed-up"), rows))


def _section(section: Section) -> Iterator[str]:
    yield f"### {prose(section.title)}"
    if section.rows:
        shown = [index for index in range(len(section.titles)) if any(row[index] for row in section.rows)]
        right = [place for place, index in enumerate(shown) if index and index not in section.text]
        rows = ([_cell(section, row, index) for index in shown] for row in section.rows)
        yield "\n".join(table([section.titles[index] for index in shown], rows, right=right))
    if section.lines:
        yield bullets(section.lines)


def _cell(section: Section, row: tuple[str, ...], index: int) -> str:
    return code(row[index]) if section.code and index == 0 else prose(row[index])
