"""A document as a page, and as a cell of a notebook: its blocks as elements that need no script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mpsprobe_exporters import document as model
from mpsprobe_exporters.html import figures
from mpsprobe_exporters.html.figures import LETTERS, bounded
from mpsprobe_exporters.html.markup import NAME, Child, Markup, broken, element, joined, name, scrolled
from mpsprobe_exporters.html.markup import table as html_table
from mpsprobe_exporters.html.page import asset
from mpsprobe_exporters.plain_text import one_line, sentence
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from mpsprobe_exporters.document import Block, Cell, Column, Document, Section

MOST_ENTRIES, MOST_PLACES, MOST_OPEN, MOST_BARS = 200, 40, 6, 40
MOST_IN_NOTEBOOK = 20  # rows of each table and grid
MOST_ROWS = 2000  # of one table; beyond, nobody reads, and a browser is slow
MOST_COLUMNS = 7  # of a table; those of the highest ranks go into the row that opens
MOST_WORDS = 6  # releases that have room for a word each
MOST_RANK = 2  # of a column that a narrow screen has room for; the others stand in the row that opens there
LONGEST = 60  # of a name in a cell
Further = Mapping[str, Sequence[tuple[int | None, Markup]]]


def views(document: Document, further: Further) -> dict[str, list[Markup]]:
    """Sections under the entry of the navigation that they stand in; ``further`` is what a page draws itself: by view,
    in the order of the navigation, what of each configuration.
    """
    views = {}
    sections = document.at("lead", "first", "all", "page")
    for title in dict.fromkeys(["Overview", *further, *(section.view for section in sections if section.view)]):
        parts: dict[int | None, list[Markup]] = {}
        for at, chart in further.get(title, ()):
            parts.setdefault(at, []).append(chart)
        for section in sections:
            if section.view == title:
                parts.setdefault(section.cell, []).append(_section(section, title))
        body = [*parts.pop(None, []), *_of_cells(document, parts)]
        if title == "Overview":
            body[:0] = [element("p", line, class_="alert") for line in document.alerts]
            body += [_section(model.Section("Notes", notes), title)] if (notes := model.bullets(document.notes)) else []
        if body:
            views[title] = body
    return views


def in_notebook(document: Document) -> Markup:
    """What is always shown of a document: a notebook keeps every output in its file, so the whole page is not here.

    Without a script, a frame or an id: text takes the colours around it, and where a viewer removes styles (GitHub, a
    notebook that is not trusted) lists and tables are left.
    """
    lines = ([f"{line}.", element("br")] for line in document.lines)
    sections = []
    for section in document.at("lead", "first"):
        heading = document.heading(section)
        # No heading, which a notebook's table of contents would list.
        title = element("p", element("strong", heading)) if heading else None
        sections.append(element("div", title, *(_in_notebook(block) for block in section.blocks)))
    return element(
        "div",
        element("style", Markup(asset(("notebook.css",)))),
        element("p", element("strong", f"{document.headline}."), class_=f"answer {document.tone}"),
        [element("p", line, class_="alert") for line in document.alerts],
        element("p", *lines, class_="quiet"),
        element("ul", *(element("li", line) for line in document.notes), class_="quiet") if document.notes else None,
        sections,
        element("p", "All of it, as a page: ", element("code", 'report.save("report.html")'), class_="quiet"),
        class_="mpsprobe-report",
    )


def _in_notebook(block: Block) -> Markup:
    match block:
        case model.Table(entries=False):  # its columns; a page has others in rows that its script opens
            columns = [(at, block.columns[at], _number(block.columns[at])) for at in block.used()]
            head = (element("th", sentence(column.title), scope="col", class_=kind) for _, column, kind in columns)
            rows = (
                element("tr", *(element("td", cell(row[at], column.kind), class_=kind) for at, column, kind in columns))
                for row in block.rows[:MOST_IN_NOTEBOOK]
            )
            shown = element("div", html_table(head, element("tbody", *rows)), class_="fit")
        case model.Table() | model.Grid():
            shown = drawn(block._replace(rows=block.rows[:MOST_IN_NOTEBOOK]))  # type: ignore[arg-type]
        case model.Bars():
            return element("div", drawn(block), class_="fit")
        case _:
            return drawn(block)
    return joined([shown, _left(len(block.rows) - MOST_IN_NOTEBOOK)])


def _of_cells(document: Document, parts: Mapping[int | None, Sequence[Markup]]) -> Iterator[Markup]:
    """The parts of each configuration, folded away but for the chosen one; the script then shows one at a time."""
    several = len(document.cells) > 1
    for index, title in enumerate(document.cells):
        if index in parts:
            summary = element("summary", title)
            part = element("details", summary, *parts[index], data_cell=index, open=index == document.chosen)
            yield part if several else element("div", *parts[index], data_cell=0)
    if parts and several:
        yield element("p", "Nothing of it is known of this configuration.", class_="nothing", hidden=True)


def chooser(document: Document) -> Markup | None:
    if len(document.cells) < 2:
        return None
    cells, chosen = enumerate(document.cells), document.chosen
    options = (element("option", title, value=index, selected=index == chosen) for index, title in cells)
    selected = element("select", *options, id="cell", aria_label="Configuration")
    return element("label", selected, class_="chooser", hidden=True)


def _section(section: Section, view: str) -> Markup:
    title = element("h3", section.title) if section.title not in ("", view) else None
    return element("section", title, *(drawn(block) for block in section.blocks), class_="block")


def drawn(block: Block) -> Markup:
    match block:
        case model.Paragraph():
            return element("p", block.text, class_={"bad": "alert", "good": "good"}.get(block.tone))
        case model.Bullets():
            lines = ([[name(line.name), ": "] if line.name else None, line.text] for line in block.lines)
            return element("ul", *(element("li", *line) for line in lines), class_="plain")
        case model.Names():
            return element("ul", *(element("li", name(text)) for text in block.names), class_="plain")
        case model.Tiles():
            return element("dl", *map(_tile, block.tiles), class_="tiles")
        case model.Table():
            return _entries(block) if block.entries else _table(block)
        case model.Bars():
            return _bars(block)
        case model.Grid():
            return _grid(block)


def _tile(tile: model.Tile) -> Markup:
    below = element("small", tile.below) if tile.below else None
    return element("div", element("dt", tile.title), element("dd", tile.value, below))


def _entries(table: model.Table) -> Markup:
    """A list: of each row its heading, what to do, and the other cells with their titles."""
    items = []
    for row in table.rows[:MOST_ENTRIES]:
        first, second = (cell(value, column.kind) for value, column in zip(row[:2], table.columns, strict=False))
        first = element("strong", first, class_="tag") if table.columns[0].kind == "text" else first
        facts = model.facts(table, row)
        advice = [element("p", str(value), class_="do") for column, value in facts if column.kind == "advice"]
        rest = _facts((column, value) for column, value in facts if column.kind != "advice")
        items.append(element("li", element("p", first, " ", second, class_="head"), *advice, rest))
    return joined([element("ul", *items, class_="entries"), _left(len(table.rows) - MOST_ENTRIES)])


def _facts(facts: Iterable[tuple[Column, Cell]], spare: Iterable[tuple[Column, Cell]] = ()) -> Markup:
    """Cells with their titles; ``spare`` ones have a column where there is room for it."""
    drawn = [_fact(*fact, "wide" if isinstance(fact[1], str) and len(fact[1]) > LONGEST else None) for fact in facts]
    return element("dl", *drawn, *(_fact(*fact, "narrow") for fact in spare), class_="facts")


def _fact(column: Column, value: Cell, class_: str | None) -> Markup:
    said = cell(value, column.kind, MOST_OPEN)
    return element("div", element("dt", column.title), element("dd", said), class_=class_)


def _left(count: int) -> Markup | None:
    return element("p", f"{number(count)} more are not shown.", class_="quiet") if count > 0 else None


def _table(table: model.Table) -> Markup:
    """Rows that the script sorts and filters; what has no column stands in a row below that opens."""
    columns = table.columns
    by_rank = sorted(table.used(), key=lambda index: columns[index].rank)
    shown = sorted(by_rank[:MOST_COLUMNS])
    more = [index for index, column in enumerate(columns) if column.where == "more" or index in by_rank[MOST_COLUMNS:]]
    spare = [index for index in shown if columns[index].rank > MOST_RANK]
    head = []
    for column in (columns[index] for index in shown):
        title = sentence(column.title) if len(column.title) > 1 else column.title
        choice, about = column.kind in ("verdict", "names"), column.about or None
        head.append(element("th", title, scope="col", class_=_class(column), title=about, data_choice=choice))
    bodies = []
    for row in table.rows[:MOST_ROWS]:
        cells = (_td(row[index], columns[index], first=index == shown[0]) for index in shown)
        known = [(columns[index], row[index]) for index in more if model.is_known(row[index])]
        also = [(columns[index], row[index]) for index in spare if model.is_known(row[index])]
        facts = element("td", _facts(known, also), colspan=len(shown))
        opened = element("tr", facts, class_="more") if known or also else None
        bodies.append(element("tbody", element("tr", *cells), opened, class_="slim" if also and not known else None))
    drawn = html_table(head, *bodies, class_="rows", data_filter="Filter by any word" if table.filtered else None)
    label = table.caption or ", ".join(columns[index].title for index in shown)
    return joined([scrolled(drawn, label), _left(len(table.rows) - MOST_ROWS)])


def _td(value: Cell, column: Column, *, first: bool) -> Markup:
    sort = f"{bounded(value):.10g}" if isinstance(value, (int, float)) else None
    scope = {"scope": "row"} if first else {}
    return element("th" if first else "td", cell(value, column.kind), **scope, class_=_class(column), data_v=sort)


def _class(column: Column) -> str | None:
    return " ".join(filter(None, (_number(column), "spare" if column.rank > MOST_RANK else None))) or None


def _number(column: Column) -> str | None:
    return "n" if column.kind in model.AMOUNTS else None


def cell(value: Cell, kind: model.Kind, open_: int = 1) -> Child:
    """What stands in a cell; of several names or places the first ``open_``, the others unfold."""
    if kind == "part" and isinstance(value, (int, float)):
        bar = figures.stacked([model.Part(max(0.0, value), 1)])
        return [bar, element("span", model.written(value, kind), class_="pc")]
    if value is None or isinstance(value, (int, float, Mapping)):
        return model.written(value, kind)
    if isinstance(value, str):
        if kind == "verdict":
            return tag(value) if value != "-" else value
        return name(value, NAME) if kind == "name" else broken(one_line(value, 1000), joints=False)
    return _listed((_place(place) for place in value), open_)


def _listed(items: Iterable[Markup], open_: int) -> Markup | None:
    """A list of which the first ``open_`` are seen; the others, at most ``MOST_PLACES`` of them, unfold."""
    places = list(items)
    shown, rest = places[:open_], places[open_:]
    if not rest:
        return element("span", [[place, " "] for place in shown]) if shown else None
    inner = element("ul", *(element("li", place) for place in rest[:MOST_PLACES]))
    left = len(rest) - MOST_PLACES
    more = element("p", f"and {number(left)} more") if left > 0 else None
    summary = element("summary", *shown, element("span", f" +{number(len(rest))}", class_="quiet"))
    return element("details", summary, inner, more, class_="more")


def tag(word: str, said: str = "") -> Markup:
    """A verdict or a difference in its colour, or its letter in that colour."""
    color = f" v-{word}" if word in LETTERS else " bad" if word in model.BAD else ""
    return element("span", said or one_line(word, 40), class_=f"tag{color}")


def _place(place: str | model.Place) -> Markup:
    if isinstance(place, str):
        return name(place, LONGEST)
    if place.url:  # which says it in full; a page has a thousand of these
        return element("a", element("code", one_line(place.text, LONGEST)), href=place.url)
    full = place.full if place.full not in ("", place.text) else None
    return element("code", broken(one_line(place.text, LONGEST)), title=full)


def _bars(block: model.Bars) -> Markup:
    rows = []
    for row in block.rows[:MOST_BARS]:
        drawn = figures.stacked(row.parts, block.mark)
        if row.interval is not None:
            drawn = figures.interval(*row.interval, block.mark or 0.0, row.parts[0])
        label = element("th", one_line(row.label, NAME), scope="row")
        rows.append(element("tr", label, element("td", drawn), element("td", row.said, class_="n")))
    caption = element("caption", block.caption, class_="quiet")
    drawn = element("table", caption, element("tbody", *rows), class_="bars")
    return joined([drawn, _left(len(block.rows) - MOST_BARS), figures.legend(block.legend)])


def _grid(block: model.Grid) -> Markup:
    """A letter for each name and release, successive equal releases in one column, the newest first."""
    spans = model.folded(block)
    wide = len(spans) <= MOST_WORDS
    turned = None if wide else "turned"
    head = [element("th", "Operator", scope="col")]
    for title, _ in spans:
        head.append(element("th", element("span", broken(title) if wide else title), scope="col", class_=turned))
    rows = []
    for title, texts in block.heads:
        cells = (element("td", element("span", texts[at]), class_=turned) for _, at in spans)
        rows.append(element("tr", element("th", title, scope="row"), *cells))
    rows += [
        element("tr", element("th", name(title), scope="row"), *(_at(words[at], wide=wide) for _, at in spans))
        for title, words in block.rows[:MOST_ROWS]
    ]
    used = {word for _, words in block.rows for word in words}
    legend = element(
        "ul",
        *(element("li", tag(word, LETTERS[word]), f" {word}") for word in LETTERS if word in used and not wide),
        *(element("li", said) for said in block.legend),
        class_="legend",
    )
    drawn = html_table(head, element("tbody", *rows), class_="grid" + " words" * wide)
    return joined([legend, scrolled(drawn, "Operators by release"), _left(len(block.rows) - MOST_ROWS)])


def _at(word: str, *, wide: bool) -> Markup:
    if word not in LETTERS:
        return element("td", word)
    return element("td", tag(word)) if wide else element("td", LETTERS[word], class_=f"v-{word}", title=word)
