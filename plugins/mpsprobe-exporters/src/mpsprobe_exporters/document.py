"""A report as people read it: what the terminal, Markdown and HTML each draw, in the words that all of them share.

``reports/`` turns each kind of report into a ``Document``, once. The drawers know no kind of report, and a document
knows neither rich nor HTML. Everything in it may be hostile text: each drawer makes it safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple, TypeVar

from mpsprobe_exporters import units
from mpsprobe_exporters.plain_text import one_line, plural, shortened

Tone = Literal["plain", "good", "mixed", "bad"]
Depth = Literal["lead", "first", "all", "page"]
"""Before the lines, as what to do is; always; with --all, in Markdown folded away; on a page only."""
AmountKind = Literal["number", "time", "bytes", "share", "part", "ratio", "amount"]
Kind = Literal["text", "advice", "name", "names", "places", "verdict", "counts", AmountKind]
"""What the cells of a column are: ``text``; ``advice``, which is what to do; ``name`` and ``names``, of code;
``places``; ``verdict``, a word with a colour; ``counts`` by name; else an amount, of time in ns, ``share``, ``part``
(drawn as a bar too) and ``ratio`` as fractions.
"""
AMOUNTS: Mapping[str, Callable[[float], str]] = {
    "number": lambda value: units.number(value) if isinstance(value, int) else units.amount(value),
    "time": units.duration,
    "bytes": units.byte_size,
    "share": units.percent,
    "part": units.percent,
    "ratio": units.ratio,
    "amount": lambda value: units.measured(value, value.unit if isinstance(value, Amount) else ""),
}
NOTHING = "·"
BAD = frozenset({"missing", "unsupported", "fallback", "unknown", "slower", "larger", "worse", "failed", "bad"})
"""Verdicts and differences that stand out wherever they are shown."""
GOOD = frozenset({"native", "faster", "smaller", "better", "good"})
Found = TypeVar("Found")
Context = TypeVar("Context")


class Amount(float):
    """A number that knows its unit (a key of ``units.SCALES``), in a column of several."""

    unit: str

    def __new__(cls, value: float, unit: str) -> Amount:
        made = super().__new__(cls, value)
        made.unit = unit
        return made


class Place(NamedTuple):
    """A module, a line of source or an address: in short, in full, and where it can be read (made by us, or empty)."""

    text: str
    full: str = ""
    url: str = ""


Cell = str | int | float | Sequence[str] | Sequence[Place] | Mapping[str, int] | None
Row = Sequence[Cell]


class Column(NamedTuple):
    title: str  # on top of it, and before its value in an entry
    kind: Kind = "text"
    key: str = ""  # its name in CSV; empty where it is not there
    about: str = ""
    rank: int = 0  # 0 always stays; of the others the one with the highest rank goes first where there is no room
    where: Literal["table", "column", "more", "record"] = "table"
    """``table``: in tables and entries; ``column``: in tables only; ``more``: in entries, and on a page in the row that
    opens; ``record``: in CSV only.
    """


class Table(NamedTuple):
    """Rows of cells, one for each column; columns in which nothing stands are not drawn."""

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    caption: str = ""  # what the rows are, for who cannot see what stands around them
    entries: bool = False  # each row is an entry: its first two cells are a heading, the others have their titles
    filtered: bool = False  # whether a page offers to look for rows
    most: int | None = None  # rows that a terminal and Markdown show, with a line about the others

    def first(self) -> Sequence[Row]:
        """The rows that a terminal and Markdown show."""
        return self.rows[: self.most]

    def left(self) -> str:
        """A line about the others; empty where there are none."""
        count = len(self.rows) - len(self.first())
        return f"{plural(count, 'more row')}: CSV has them all" if count else ""

    def used(self) -> list[int]:
        """The numbers of the columns in which anything stands, without those for entries."""
        asked = [index for index, column in enumerate(self.columns) if column.where in ("table", "column")]
        return [index for index in asked if any(is_known(row[index]) for row in self.rows)]


Fields = Sequence[tuple[Column, Callable[[Context, Found], Cell]]]
"""The columns of a table, each with how its cell is found: from what all rows share, and from what a row is of."""


def table(
    fields: Fields[Context, Found],
    context: Context,
    items: Iterable[Found],
    caption: str = "",
    *,
    entries: bool = False,
    filtered: bool = False,
    most: int | None = None,
) -> list[Block]:
    """A row for each item, as blocks of a section; nothing for no items. The others are attributes of ``Table``."""
    rows = [tuple(of(context, row) for _, of in fields) for row in items]
    columns = tuple(column for column, _ in fields)
    return [Table(columns, rows, caption, entries, filtered, most)] if rows else []


def records(fields: Fields[Context, Found], context: Context, items: Iterable[Found]) -> Iterator[tuple[Cell, ...]]:
    """The rows of a CSV file: the keys of the columns that have one, then a row for each item."""
    keyed = [(column.key, of) for column, of in fields if column.key]
    yield tuple(key for key, _ in keyed)
    yield from (tuple(of(context, row) for _, of in keyed) for row in items)


class Part(NamedTuple):
    """A part of a bar: how much of the widest bar, its colour (a verdict, or 1 to 8), and what it is."""

    share: float
    color: str | int
    said: str = ""


class Bar(NamedTuple):
    """One bar: what it is of, its parts from the left, and its value in words."""

    label: str
    parts: Sequence[Part]
    said: str
    interval: tuple[float, float] | None = None
    """Draws the first part's share as a dot in this range instead."""


class Bars(NamedTuple):
    """Horizontal bars on one scale; ``mark`` is a place on it with a line."""

    rows: Sequence[Bar]
    caption: str = ""
    legend: Sequence[tuple[str | int, str]] = ()
    mark: float | None = None


class Grid(NamedTuple):
    """What each release does with each name: a verdict, or ``·``."""

    releases: Sequence[str]  # the newest first
    heads: Sequence[tuple[str, Sequence[str]]]  # rows above: a title and a text for each release
    rows: Sequence[tuple[str, Sequence[str]]]  # a name and a word for each release
    legend: Sequence[str] = ()


class Paragraph(NamedTuple):
    text: str
    tone: Tone = "plain"


class Bullet(NamedTuple):
    """A line of a list, after a name of code where it has one."""

    text: str
    name: str = ""


class Bullets(NamedTuple):
    lines: Sequence[Bullet]


def bullets(lines: Iterable[str | Bullet]) -> list[Block]:
    items = [Bullet(line) if isinstance(line, str) else line for line in lines]
    return [Bullets(items)] if items else []


class Names(NamedTuple):
    """Names of code, side by side where a screen has room; one a line in a pipe."""

    names: Sequence[str]


class Tile(NamedTuple):
    """A figure that answers much at once: what it is, its value, and a word below it."""

    title: str
    value: str
    below: str = ""


class Tiles(NamedTuple):
    tiles: Sequence[Tile]


Block = Paragraph | Bullets | Names | Table | Bars | Grid | Tiles


class Section(NamedTuple):
    title: str  # empty: under none
    blocks: Sequence[Block]
    view: str = "Overview"  # the page's entry of the navigation; empty where a page shows it in another way
    depth: Depth = "first"
    cell: int | None = None  # the number of the configuration that it is of, where a page shows one at a time


class Document(NamedTuple):
    title: str
    headline: str = ""  # the answer in a sentence, without a full stop; empty where a table is the answer
    tone: Tone = "plain"
    lines: Sequence[str] = ()  # what it is about, and how it is known
    sections: Sequence[Section] = ()  # in the order of reading; those without blocks are left out
    alerts: Sequence[str] = ()  # right after the headline: what stops the run, or makes its results wrong
    notes: Sequence[str] = ()
    cells: Sequence[str] = ()  # names of the configurations that sections are of; a page lets choose between them
    chosen: int = 0  # the number of the one that it shows first
    brief: Sequence[str] = ()  # all that a terminal shows where nothing is to do, unless it is asked for all

    def heading(self, section: Section) -> str:
        of = f" ({self.cells[section.cell]})" if section.cell is not None and len(self.cells) > 1 else ""
        return f"{section.title}{of}"

    def at(self, *depths: Depth) -> list[Section]:
        return [section for section in self.sections if section.depth in depths and section.blocks]


def is_known(cell: Cell) -> bool:
    """Whether anything stands in a cell; a zero does."""
    return bool(cell.strip()) if isinstance(cell, str) else cell is not None and cell not in ((), {})


def facts(table: Table, row: Row) -> list[tuple[Column, Cell]]:
    """What stands below the heading of an entry, with its columns: what to do first."""
    shown = [
        (column, cell)
        for column, cell in list(zip(table.columns, row, strict=True))[2:]
        if column.where in ("table", "more") and is_known(cell)
    ]
    return sorted(shown, key=lambda fact: fact[0].kind != "advice")


def written(cell: Cell, kind: Kind, most: int | None = None) -> str:
    """A cell as text on one line; of several names or places the first ``most``."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return one_line(cell, 1000)
    if isinstance(cell, (int, float)):
        return AMOUNTS[kind](cell)
    if isinstance(cell, Mapping):
        parts = ", ".join(f"{one_line(name, 40)} {units.number(count)}" for name, count in cell.items())
        return f"{units.number(sum(cell.values()))} ({parts})"
    return ", ".join(shortened([one_line(name.text if isinstance(name, Place) else name) for name in cell], most))


def folded(grid: Grid) -> list[tuple[str, int]]:
    """The releases, successive equal ones as one, the newest first: ``2.9.0-2.14.0``, and the number of its first."""
    every = [texts for _, texts in (*grid.heads, *grid.rows)]
    groups = runs(range(len(grid.releases)), lambda index: [texts[index] for texts in every])
    return [(span(grid.releases, run), run[0]) for run in groups]


def history(grid: Grid, words: Sequence[str]) -> list[tuple[str, str]]:
    """A row of a grid as (range of releases, word), the newest first."""
    return [(span(grid.releases, run), words[run[0]]) for run in runs(range(len(words)), words.__getitem__)]


def runs(items: Sequence[Found], key: Callable[[Found], object]) -> list[list[Found]]:
    """``items`` in groups of neighbours with an equal key."""
    return [list(run) for _, run in groupby(items, key)]


def span(releases: Sequence[str], run: Sequence[int]) -> str:
    """``2.0.0`` or ``2.0.0-2.3.1``, of releases that are numbered from the newest on."""
    newest, oldest = one_line(releases[run[0]], 40), one_line(releases[run[-1]], 40)
    return newest if len(run) == 1 else f"{oldest}-{newest}"
