"""Tables that are read without a script; one makes them sortable and gives them a filter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mpsprobe_exporters.html.figures import bar
from mpsprobe_exporters.html.markup import Child, Markup, element
from mpsprobe_exporters.html.scales import bounded
from mpsprobe_exporters.units import amount, byte_size, duration, number, percent

MOST_ROWS = 2000  # of one table; beyond, nobody reads, and a browser is slow


class Column(NamedTuple):
    """``numeric`` columns stand to the right and sort by value; ``about`` is shown where one points at the title."""

    title: str
    numeric: bool = False
    about: str | None = None


class Field(NamedTuple):
    """What stands in a cell, and what it sorts by; without ``value`` a numeric one sorts to the end."""

    shown: Child
    value: float | None = None


def table(
    caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Field]], *, filtered: str | None = None
) -> Markup:
    """A table in a box of its own to scroll in.

    Columns in which nothing stands are left out. ``filtered`` is the label of its filter; ``None`` for none.
    """
    used = [index for index in range(len(columns)) if any(_stands(row[index]) for row in rows)]
    head = (
        element("th", columns[i].title, scope="col", class_=_class(columns[i]), title=columns[i].about) for i in used
    )
    body = (element("tr", *(_cell(columns[i], row[i]) for i in used)) for row in rows[:MOST_ROWS])
    made = element(
        "table",
        element("caption", caption, class_="quiet"),
        element("thead", element("tr", *head)),
        element("tbody", *body),
        class_="data",
        data_filter=filtered,
    )
    box = element("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption)
    rest = len(rows) - MOST_ROWS
    return box if rest <= 0 else Markup(box + element("p", f"{number(rest)} more rows are not shown.", class_="quiet"))


def words(shown: Child) -> Field:
    """A cell of text, sorted as text."""
    return Field(shown)


def time(nanoseconds: float | None) -> Field:
    """A duration."""
    return _number(nanoseconds, duration)


def size(count: int | None) -> Field:
    """A number of bytes."""
    return _number(count, lambda value: byte_size(int(value)))


def count(value: int | None) -> Field:
    """A number of things."""
    return _number(value, lambda found: number(int(found)))


def rate(value: float | None) -> Field:
    """An amount with three digits."""
    return _number(value, amount)


def share(part: float | None, whole: float) -> Field:
    """``part`` of ``whole`` as a bar and in per cent."""
    if part is None or whole <= 0:
        return Field(None)
    fraction = min(1.0, max(0.0, bounded(part) / bounded(whole)))
    return Field([bar(fraction), element("span", percent(fraction), class_="pc")], fraction)


def listed(items: Iterable[Markup], open_: int = 1, most: int = 40) -> Markup | None:
    """A list of which the first ``open_`` are seen; the others, at most ``most`` of them, unfold."""
    found = list(items)
    if not found:
        return None
    shown, rest = found[:open_], found[open_:]
    if not rest:
        return element("span", [[one, " "] for one in shown])
    inner = element("ul", *(element("li", one) for one in rest[:most]))
    left = len(rest) - most
    more = element("p", f"and {number(left)} more") if left > 0 else None
    summary = element("summary", *shown, element("span", f" +{number(len(rest))}", class_="quiet"))
    return element("details", summary, inner, more, class_="more")


def _number(value: float | None, write: Callable[[float], str]) -> Field:
    return Field(None) if value is None else Field(write(bounded(value)), bounded(value))


def _stands(field: Field) -> bool:
    return field.shown not in (None, "")


def _class(column: Column) -> str | None:
    return "n" if column.numeric else None


def _cell(column: Column, field: Field) -> Markup:
    value = None if field.value is None or not column.numeric else f"{field.value:.10g}"
    return element("td", field.shown, class_=_class(column), data_v=value)
