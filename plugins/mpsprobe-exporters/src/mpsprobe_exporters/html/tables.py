"""Lists that unfold inside of a cell."""

from __future__ import annotations

from collections.abc import Iterable

from mpsprobe_exporters.html.markup import Markup, element
from mpsprobe_exporters.units import number

MOST_ROWS = 2000  # of one table; beyond, nobody reads, and a browser is slow


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
