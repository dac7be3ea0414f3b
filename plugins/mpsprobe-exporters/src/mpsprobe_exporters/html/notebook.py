"""A document as a cell of a notebook shows it: the short answer and what to do, in the notebook's own colours.

A fragment without a script, a frame or an id: its height is its own, text takes the colour around it, light or dark,
and where a viewer removes its styles (GitHub, a notebook that is not trusted) headings, lists and tables are left. The
whole page is not here, for a notebook keeps every output in its file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import document as model
from mpsprobe_exporters.html.drawing import cell, drawn
from mpsprobe_exporters.html.markup import Markup, element
from mpsprobe_exporters.html.page import asset

if TYPE_CHECKING:
    from mpsprobe_exporters.document import Document, Section

MOST_ROWS = 20  # of each table and grid


def fragment(document: Document) -> Markup:
    """What is always shown of a document, as one ``div``."""
    lines = ([f"{line}.", element("br")] for line in document.lines)
    whole = element("code", 'report.save("report.html")')
    return element(
        "div",
        element("style", Markup(asset(("notebook.css",)))),
        element("p", element("strong", f"{document.headline}."), class_=f"answer {document.tone}"),
        [element("p", line, class_="alert") for line in document.alerts],
        element("p", *lines, class_="quiet"),
        element("ul", *(element("li", line) for line in document.notes), class_="quiet") if document.notes else None,
        [_section(section, document.heading(section)) for section in document.at("first")],
        element("p", "All of it, as a page: ", whole, class_="quiet"),
        class_="mpsprobe-report",
    )


def _section(section: Section, title: str) -> Markup:
    """Its title is no heading, which a notebook's table of contents would list."""
    return element("div", element("p", element("strong", title)) if title else None, *_blocks(section))


def _blocks(section: Section) -> Iterator[Markup]:
    for block in section.blocks:
        match block:
            case model.Table(entries=False):
                yield _table(block)
            case model.Table():
                yield drawn(block._replace(rows=block.rows[:MOST_ROWS]))
            case model.Grid():
                yield drawn(block._replace(rows=block.rows[:MOST_ROWS]))
            case model.Bars():
                yield element("div", drawn(block), class_="fit")
            case _:
                yield drawn(block)
        if isinstance(block, (model.Table, model.Grid)) and len(block.rows) > MOST_ROWS:
            yield element("p", f"{len(block.rows) - MOST_ROWS:,} more are not shown.", class_="quiet")


def _table(table: model.Table) -> Markup:
    """Its columns; a page has others in rows that its script opens."""
    columns = [
        (index, table.columns[index], "n" if table.columns[index].kind in model.AMOUNTS else None)
        for index in table.used()
    ]
    head = (
        element("th", column.title[:1].upper() + column.title[1:], scope="col", class_=class_)
        for _, column, class_ in columns
    )
    rows = (
        element(
            "tr", *(element("td", cell(row[index], column.kind), class_=class_) for index, column, class_ in columns)
        )
        for row in table.rows[:MOST_ROWS]
    )
    made = element("table", element("thead", element("tr", *head)), element("tbody", *rows))
    return element("div", made, class_="fit")
