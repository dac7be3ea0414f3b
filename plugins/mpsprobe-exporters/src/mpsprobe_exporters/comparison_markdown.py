"""A comparison in GitHub-flavoured Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import comparison_answer as words
from mpsprobe_exporters.markdown_text import bullets, code, prose, section, table

if TYPE_CHECKING:
    from mpsprobe.schemas import ComparedCell, ComparisonReport

BOLD = {"slower", "larger", "worse"}


def blocks(report: ComparisonReport) -> Iterator[str]:
    """The blocks of the document, from the short answer to how it was told."""
    yield f"**{prose(words.short_answer(report))}.**"
    yield f"{prose(words.side_line(report))}."
    if report.conditions:
        yield f"> **{prose(words.conditions_title(report))}**\n>\n" + "\n".join(
            f"> - {prose(line)}" for line in words.condition_lines(report)
        )
    loud, quiet = words.parted(report)
    for cell in loud:
        yield from _cell(report, cell)
    if quiet:
        yield f"### {words.QUIET_TITLE}"
        rows = (map(prose, row) for row in words.quiet_rows(quiet))
        yield "\n".join(table(("configuration", *words.TITLES[1:]), rows, right=range(1, 6)))
        notes = words.quiet_notes(quiet)
        if notes:
            yield bullets(notes)
    yield from _coverage(report)
    yield from section(words.UNPAIRED, words.unpaired_lines(report))
    yield from section("How differences are told from noise", words.method_lines(report))


def _cell(report: ComparisonReport, cell: ComparedCell) -> Iterator[str]:
    yield f"### {prose(words.configuration(cell))}"
    rows, left = words.shown_quantities(report, cell)
    if rows:
        shown = ((*(prose(text) for text in row[:-1]), _emphasised(row.difference)) for row in rows)
        yield "\n".join(table(words.TITLES, shown, right=range(1, 6)))
    notes = [*([left] if left else []), *words.cell_notes(cell)]
    if notes:
        yield bullets(notes)
    operators = words.operator_rows(cell)
    if operators:
        yield f"{prose(words.operators_title(cell))}:"
        shown_rows = ((code(row[0]), *map(prose, row[1:])) for row in operators)
        yield "\n".join(table(words.OPERATOR_TITLES, shown_rows, right=range(1, 5)))
    fallbacks = words.fallback_lines(cell)
    if fallbacks:
        yield f"{words.FALLBACKS}:"
        yield bullets(fallbacks)


def _coverage(report: ComparisonReport) -> Iterator[str]:
    failures = words.failure_lines(report)
    if failures:
        yield bullets(failures)
    verdicts = words.verdict_rows(report)
    if verdicts:
        matrix = any(row[1] for row in verdicts)
        titles = ("operator", *(["torch"] if matrix else []), "old", "new", "change")
        rows = (
            (code(name), *([prose(release)] if matrix else []), old, new, _emphasised(change))
            for name, release, old, new, change in verdicts
        )
        yield f"### {words.VERDICTS}"
        yield "\n".join(table(titles, rows))
    yield from section(words.ADVISORIES, words.advisory_lines(report))


def _emphasised(word: str) -> str:
    return f"**{word}**" if word in BOLD else word
