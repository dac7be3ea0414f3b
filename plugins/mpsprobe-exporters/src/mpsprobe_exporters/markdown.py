"""GitHub-flavoured Markdown: what one pastes into an issue, a pull request or a job summary."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from mpsprobe_exporters import document as model
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.reports import document_of
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report
    from mpsprobe_exporters.document import Block, Cell, Document, Kind, Section

MOST_PLACES = 7
# Nothing in these can end a code span, a table cell, or start anything else.
PLAIN_CODE = re.compile(r"[A-Za-z0-9_.,:;/=+(){}\[\] -]*[A-Za-z0-9_.,:;/=+(){}\[\]-]")
# Structure that Markdown sees in running text. Underscores inside words are none on GitHub.
STRUCTURE = re.compile(r"[\\`*\[\]|~#!$]|(?<![^\W_])_|_(?![^\W_])")
# What makes a list or a heading of the line that it begins.
BEGINNING = re.compile(r"[-+](?=[\s-]|$)|=(?==*$)|[0-9](?=[0-9]{0,8}[.)](\s|$))")
BAR, FULL = 20, "█"  # columns of the widest bar


class MarkdownExporter:
    def render(self, report: Report) -> str:
        return "\n\n".join(blocks(document_of(supported_report(report, "markdown")))) + "\n"


def blocks(document: Document) -> Iterator[str]:
    for line in filter(None, (document.headline, *document.alerts)):
        yield f"**{prose(line.rstrip('.'))}.**"
    lead = document.at("lead")
    for section in lead:
        yield from _section(section, document.heading(section))
    if lead and (document.lines or document.notes):
        yield "### Facts"
    if document.lines:
        yield " ".join(f"{prose(line)}." for line in document.lines)
    for block in model.bullets(document.notes):
        yield from drawn(block)
    for section in document.at("first", "all"):
        yield from _section(section, document.heading(section))


def _section(section: Section, title: str) -> Iterator[str]:
    texts = (text for block in section.blocks for text in drawn(block))
    if section.depth == "all":
        yield f"<details><summary>{prose(title)}</summary>"
        yield from texts
        yield "</details>"
        return
    if title:
        yield f"### {prose(title)}"
    yield from texts


def drawn(block: Block) -> Iterator[str]:
    match block:
        case model.Paragraph():
            yield f"**{prose(block.text)}**" if block.tone == "bad" else prose(block.text)
        case model.Bullets():
            named = (f"{code(line.name)}: " if line.name else "" for line in block.lines)
            yield "\n".join(f"- {name}{prose(line.text)}" for name, line in zip(named, block.lines, strict=True))
        case model.Names():
            yield ", ".join(map(code, block.names))
        case model.Tiles():
            tiles = (f"- {prose(tile.title)}: **{prose(tile.value)}** {prose(tile.below)}" for tile in block.tiles)
            yield "\n".join(map(str.rstrip, tiles))
        case model.Table():
            yield from _tables(block)
        case model.Bars():
            bars = ((prose(row.label), _bar(row), prose(row.said)) for row in block.rows)
            yield "\n".join(table(("", "", prose(block.caption)), bars))
        case model.Grid():
            yield from _grid(block)


def _tables(block: model.Table) -> Iterator[str]:
    if block.entries:
        yield "\n".join(line for row in block.first() for line in _entry(block, row))
    else:
        columns = [(index, block.columns[index]) for index in block.used()]
        right = [place for place, (_, column) in enumerate(columns) if column.kind in model.AMOUNTS]
        rows = ([cell(row[index], column.kind) for index, column in columns] for row in block.first())
        yield "\n".join(table([column.title for _, column in columns], rows, right=right))
    if block.left():
        yield f"{block.left()}."


def _entry(block: model.Table, row: model.Row) -> Iterator[str]:
    """A bullet with the first two cells, and one below it for each of the others, what to do first."""
    second = cell(row[1], block.columns[1].kind)
    yield f"- {cell(row[0], block.columns[0].kind)}{': ' if second else ''}{second}"
    for column, value in model.facts(block, row):
        yield f"  - {prose(column.title)}: {cell(value, column.kind)}"


def cell(value: Cell, kind: Kind) -> str:
    if value is None:
        return ""
    if kind == "name":
        return code(str(value)) or "(none)"
    if isinstance(value, (str, int, float, Mapping)):
        text = model.written(value, kind)
        return f"**{prose(text)}**" if text in model.BAD else prose(text, 1000)
    kept = [code(name.text if isinstance(name, model.Place) else name) for name in value[:MOST_PLACES]]
    return ", ".join([*kept, *([f"and {len(value) - len(kept):,} more"] if len(value) > len(kept) else [])])


def _bar(row: model.Bar) -> str:
    return FULL * max(1, round(BAR * min(1.0, sum(part.share for part in row.parts)))) if row.parts else ""


def _grid(block: model.Grid) -> Iterator[str]:
    spans = model.folded(block)
    heads = ((prose(title), *(prose(texts[at]) for _, at in spans)) for title, texts in block.heads)
    rows = ((code(name), *(prose(words[at]) for _, at in spans)) for name, words in block.rows)
    if spans:
        yield "\n".join(table(("operator", *(prose(title, 40) for title, _ in spans)), [*heads, *rows]))
        if block.legend:
            yield f"{'; '.join(block.legend)}."


def code(text: str, longest: int | None = 300) -> str:
    """``text`` as code: a code span, or ``<code>`` with entities where a span could be broken out of."""
    clean = one_line(text, longest)
    if not clean:
        return ""
    if PLAIN_CODE.fullmatch(clean) and clean[0] != " ":
        return f"`{clean}`"
    entities = "".join(c if c.isalnum() or c in " .,:;/=" else f"&#{ord(c)};" for c in clean)
    return f"<code>{entities}</code>"


def prose(text: str, longest: int | None = None) -> str:
    """``text`` as running text: nothing in it is markup, but pairs of backticks around plain code stay."""
    clean = one_line(text, longest)
    parts = re.split(r"`([^`]+)`", clean)
    text = "".join(code(part) if index % 2 else _escaped(part) for index, part in enumerate(parts))
    return f"&#{ord(text[0])};{text[1:]}" if BEGINNING.match(text) else text


def table(header: Iterable[str], rows: Iterable[Iterable[str]], right: Iterable[int] = ()) -> list[str]:
    """The lines of a table whose cells are Markdown already; the columns numbered in ``right`` hold numbers."""
    titles = list(header)
    aligned = set(right)
    lines = [_row(titles), _row("---:" if index in aligned else "---" for index in range(len(titles)))]
    return lines + [_row(row) for row in rows]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    # An entity is never structure, so a pipe needs no second escape inside a table; an empty comment
    # after an @ keeps GitHub from notifying whoever has that name.
    safe = html.escape(text, quote=False)
    safe = STRUCTURE.sub(lambda match: f"&#{ord(match[0])};", safe)
    return re.sub(r"@(?=\w)", "@<!-- -->", safe)
