"""A document as a page: its sections as views, its blocks as elements that need no script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mpsprobe_exporters import document as model
from mpsprobe_exporters.html import figures
from mpsprobe_exporters.html.figures import LETTERS
from mpsprobe_exporters.html.markup import NAME, Child, Markup, broken, element, joined, name
from mpsprobe_exporters.html.page import View
from mpsprobe_exporters.html.scales import bounded
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from mpsprobe_exporters.document import Block, Cell, Column, Document, Section

MOST_ENTRIES, MOST_PLACES, MOST_OPEN, MOST_BARS = 200, 40, 6, 40
MOST_ROWS = 2000  # of one table; beyond, nobody reads, and a browser is slow
MOST_COLUMNS = 7  # of a table; those of the highest ranks go into the row that opens
BAD = frozenset({"slower", "larger", "worse", "failed"})
MOST_WORDS = 6  # releases that have room for a word each
MOST_RANK = 2  # of a column that a narrow screen has room for; the others stand in the row that opens there
LONGEST = 60  # of a name in a cell


Further = Mapping[str, Sequence[tuple[int | None, Markup]]]


def views(document: Document, further: Further) -> Iterator[View]:
    """Sections under the entry of the navigation that they stand in.

    Args:
        document: what is drawn.
        further: what a page draws itself: by view, in the order of the navigation, what of each configuration.
    """
    found = document.at("first", "all", "page")
    for title in dict.fromkeys(["Overview", *further, *(section.view for section in found if section.view)]):
        parts: dict[int | None, list[Markup]] = {}
        for at, made in further.get(title, ()):
            parts.setdefault(at, []).append(made)
        for section in found:
            if section.view == title:
                parts.setdefault(section.cell, []).append(_section(section, title))
        body = [*parts.pop(None, []), *_of_cells(document, parts)]
        if title == "Overview":
            body[:0] = [element("p", line, class_="alert") for line in document.alerts]
            notes = model.bullets(document.notes)
            body += [_section(model.Section("Notes", notes), title)] if notes else []
        if body:
            yield View(title.partition(" ")[0].lower(), title, body)


def _of_cells(document: Document, parts: Mapping[int | None, Sequence[Markup]]) -> Iterator[Markup]:
    """The parts of each configuration, folded away but for the chosen one; the script then shows one at a time."""
    several = len(document.cells) > 1
    for index, title in enumerate(document.cells):
        if index in parts:
            summary = element("summary", title)
            made = element("details", summary, *parts[index], data_cell=index, open=index == document.chosen)
            yield made if several else element("div", *parts[index], data_cell=0)
    if parts and several:
        yield element("p", "Nothing of it is known of this configuration.", class_="nothing", hidden=True)


def chooser(document: Document) -> Markup | None:
    """What chooses between configurations, where there are several."""
    if len(document.cells) < 2:
        return None
    options = (
        element("option", title, value=index, selected=index == document.chosen)
        for index, title in enumerate(document.cells)
    )
    selected = element("select", *options, id="cell", aria_label="Configuration")
    return element("label", selected, class_="chooser", hidden=True)


def _section(section: Section, view: str) -> Markup:
    title = element("h3", section.title) if section.title not in ("", view) else None
    return element("section", title, *(drawn(block) for block in section.blocks), class_="block")


def drawn(block: Block) -> Markup:
    """A block of a document."""
    match block:
        case model.Paragraph():
            return element("p", block.text, class_={"bad": "alert", "good": "good"}.get(block.tone))
        case model.Bullets():
            lines = ([[name(one.name), ": "] if one.name else None, one.text] for one in block.lines)
            return element("ul", *(element("li", *line) for line in lines), class_="plain")
        case model.Names():
            return element("ul", *(element("li", name(one)) for one in block.names), class_="plain")
        case model.Tiles():
            return element("dl", *map(_tile, block.tiles), class_="tiles")
        case model.Table():
            return _entries(block) if block.entries else _table(block)
        case model.Bars():
            return _bars(block)
        case model.Grid():
            return _grid(block)


def _tile(one: model.Tile) -> Markup:
    below = element("small", one.below) if one.below else None
    return element("div", element("dt", one.title), element("dd", one.value, below))


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
    made = [_fact(*one, "wide" if isinstance(one[1], str) and len(one[1]) > LONGEST else None) for one in facts]
    return element("dl", *made, *(_fact(*one, "narrow") for one in spare), class_="facts")


def _fact(column: Column, value: Cell, class_: str | None) -> Markup:
    said = cell(value, column.kind, MOST_OPEN)
    return element("div", element("dt", column.title), element("dd", said), class_=class_)


def _left(count: int) -> Markup | None:
    return element("p", f"{number(count)} more are not shown.", class_="quiet") if count > 0 else None


def _table(table: model.Table) -> Markup:
    """Rows that the script sorts and filters; what has no column stands in a row below that opens."""
    by_rank = sorted(table.used(), key=lambda index: table.columns[index].rank)
    shown = sorted(by_rank[:MOST_COLUMNS])
    columns = [table.columns[index] for index in shown]
    more = [index for index, one in enumerate(table.columns) if one.where == "more" or index in by_rank[MOST_COLUMNS:]]
    head = (
        element(
            "th",
            column.title[0].upper() + column.title[1:] if len(column.title) > 1 else column.title,
            scope="col",
            class_=_class(column),
            title=column.about or None,
            data_choice=column.kind in ("verdict", "names"),
        )
        for column in columns
    )
    spare = [index for index in shown if table.columns[index].rank > MOST_RANK]
    bodies = []
    for row in table.rows[:MOST_ROWS]:
        cells = (_td(row[index], table.columns[index], first=index == shown[0]) for index in shown)
        known = [(table.columns[index], row[index]) for index in more if model.is_known(row[index])]
        also = [(table.columns[index], row[index]) for index in spare if model.is_known(row[index])]
        facts = element("td", _facts(known, also), colspan=len(shown))
        opened = element("tr", facts, class_="more") if known or also else None
        bodies.append(element("tbody", element("tr", *cells), opened, class_="slim" if also and not known else None))
    made = element(
        "table",
        element("thead", element("tr", *head)),
        *bodies,
        class_="rows",
        data_filter="Filter by any word" if table.filtered else None,
    )
    label = table.caption or ", ".join(column.title for column in columns)
    box = element("div", made, class_="fit", tabindex="0", role="region", aria_label=label)
    return joined([box, _left(len(table.rows) - MOST_ROWS)])


def _td(value: Cell, column: Column, *, first: bool) -> Markup:
    """A cell; the first of a row is its heading."""
    known = bounded(value) if isinstance(value, (int, float)) else None
    sort = None if known is None else f"{known:.10g}"
    scope = {"scope": "row"} if first else {}
    return element("th" if first else "td", cell(value, column.kind), **scope, class_=_class(column), data_v=sort)


def _class(column: Column) -> str | None:
    found = ["n"] if column.kind in model.AMOUNTS else []
    return " ".join([*found, *(["spare"] if column.rank > MOST_RANK else [])]) or None


def cell(value: Cell, kind: model.Kind, open_: int = 1) -> Child:
    """What stands in a cell; of several names or places the first ``open_``, the others unfold."""
    if kind == "part" and isinstance(value, (int, float)):
        return [
            figures.stacked([model.Part(max(0.0, value), 1)]),
            element("span", model.written(value, kind), class_="pc"),
        ]
    if value is None or isinstance(value, (int, float, Mapping)):
        return model.written(value, kind)
    if isinstance(value, str):
        if kind == "verdict":
            return tag(value) if value != "-" else value
        return name(value, NAME) if kind == "name" else broken(one_line(value, 1000), joints=False)
    return _listed((_place(one) for one in value), open_)


def _listed(items: Iterable[Markup], open_: int) -> Markup | None:
    """A list of which the first ``open_`` are seen; the others, at most ``MOST_PLACES`` of them, unfold."""
    found = list(items)
    if not found:
        return None
    shown, rest = found[:open_], found[open_:]
    if not rest:
        return element("span", [[one, " "] for one in shown])
    inner = element("ul", *(element("li", one) for one in rest[:MOST_PLACES]))
    left = len(rest) - MOST_PLACES
    more = element("p", f"and {number(left)} more") if left > 0 else None
    summary = element("summary", *shown, element("span", f" +{number(len(rest))}", class_="quiet"))
    return element("details", summary, inner, more, class_="more")


def tag(word: str, said: str = "") -> Markup:
    """A verdict or a difference in its colour, or its letter in that colour."""
    color = f" v-{word}" if word in LETTERS else " bad" if word in BAD else ""
    return element("span", said or one_line(word, 40), class_=f"tag{color}")


def _place(one: str | model.Place) -> Markup:
    if isinstance(one, str):
        return name(one, LONGEST)
    if one.url:  # which says it in full; a page has a thousand of these
        return element("a", element("code", one_line(one.text, LONGEST)), href=one.url)
    full = one.full if one.full not in ("", one.text) else None
    return element("code", broken(one_line(one.text, LONGEST)), title=full)


def _bars(block: model.Bars) -> Markup:
    shown = block.rows[:MOST_BARS]
    rows = []
    for row in shown:
        drawn = figures.stacked(row.parts, block.mark)
        if row.interval is not None:
            drawn = figures.interval(*row.interval, block.mark or 0.0, row.parts[0])
        rows.append((one_line(row.label, NAME), drawn, row.said))
    left = _left(len(block.rows) - len(shown))
    legend = figures.legend(block.legend)
    return joined([figures.bar_rows(rows, block.caption), left, legend])


def _grid(block: model.Grid) -> Markup:
    """A letter for each name and release, successive equal releases in one column, the newest first."""
    spans = model.folded(block)
    wide = len(spans) <= MOST_WORDS
    turned = None if wide else "turned"
    names = (element("span", broken(title) if wide else title) for title, _ in spans)
    titles = (element("th", one, scope="col", class_=turned) for one in names)
    head = element("tr", element("th", "Operator", scope="col"), *titles)
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
    made = element("table", element("thead", head), element("tbody", *rows), class_="grid" + " words" * wide)
    box = element("div", made, class_="fit", tabindex="0", role="region", aria_label="Operators by release")
    return joined([legend, box, _left(len(block.rows) - MOST_ROWS)])


def _at(word: str, *, wide: bool) -> Markup:
    """A release's word for an operator: as a word, or as a letter."""
    if word not in LETTERS:
        return element("td", word)
    return element("td", tag(word)) if wide else element("td", LETTERS[word], class_=f"v-{word}", title=word)
