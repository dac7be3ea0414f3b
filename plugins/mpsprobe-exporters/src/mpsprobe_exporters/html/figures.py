"""Charts as SVG that stretches: places are percentages, text and lines keep their size, nothing needs a script.

Axes have ticks at round numbers in one unit. Dots are strokes without length and round ends, so that they stay round
in a picture that is stretched.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mpsprobe_exporters.document import Part
from mpsprobe_exporters.html.markup import Markup, element
from mpsprobe_exporters.units import BEYOND, scale_of

# What a cell of a grid shows for a verdict, with its colour: a letter.
LETTERS = {"missing": "M", "unsupported": "U", "fallback": "F", "unknown": "?", "native": "N", "composite": "C"}
TINY = 1e-300  # below it a step between ticks is no number any more
FINE = 10_000  # units of the inner picture in each direction
APART = 0.09  # between the names of lines: a line of text in a plot of 190 pixels


class Axis(NamedTuple):
    """A linear axis from ``low`` to ``high``; ``ticks`` are pairs of a value and its label."""

    low: float
    high: float
    ticks: list[tuple[float, str]]

    def place(self, value: float) -> float:
        """Where ``value`` is, from 0 at the low end to 1 at the high one; what is outside goes to the end."""
        span = self.high - self.low
        return min(1.0, max(0.0, (value - self.low) / span)) if span > 0 else 0.0


class Line(NamedTuple):
    label: str
    color: int
    places: Sequence[tuple[float, float]]  # 0 to 1 in each direction, upwards
    kind: str = "line"


class Tip(NamedTuple):
    place: float  # on the x axis, 0 to 1
    said: str


def bounded(value: float) -> float:
    """``value`` as a float that nothing overflows with."""
    return float(max(-BEYOND, min(BEYOND, value)))


def axis(
    values: Sequence[float], unit: str, most: int = 5, *, zero: bool = True, whole: bool = False, exact: bool = False
) -> Axis:
    """An axis that holds ``values``, of a unit of ``units.SCALES``, with at most about ``most`` ticks.

    ``whole``: there is nothing between two whole numbers. ``exact``: it ends where the values do, not at the next tick.
    """
    known = [bounded(value) for value in values] or [0.0]
    low = min(0.0, *known) if zero else min(known)
    high = max(0.0, *known) if zero else max(known)
    if high - low < TINY:
        high = low + (abs(low) if abs(low) > TINY else 1.0)
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((factor * power for factor in (1, 2, 5) if factor * power >= rough * 0.999), 10 * power)
    step = max(1.0, step) if whole else step
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    size, symbol = scale_of(max(abs(first), abs(last)) * step, unit)
    places = (index * step for index in range(first, last + 1))
    ticks = [(at, f"{at / size:,.10g} {symbol}".rstrip() if at else "0") for at in places]
    if zero and not exact:
        return Axis(first * step, last * step, ticks)
    return Axis(low, high, [tick for tick in ticks if low <= tick[0] <= high])


def percent(fraction: float) -> str:
    """``12.5%``, as SVG takes it."""
    return f"{100 * fraction:.2f}".rstrip("0").rstrip(".") + "%"


def thinned(count: int, most: int) -> list[int]:
    """At most ``most`` positions out of ``count``, evenly spread, with the first and the last."""
    if count <= most:
        return list(range(count))
    return sorted({round(index * (count - 1) / (most - 1)) for index in range(most)})


def stacked(parts: Iterable[Part], mark: float | None = None) -> Markup:
    """Bars one after the other, from the left; ``mark`` draws a line at a place."""
    drawn, at = [], 0.0
    for part in parts:
        title = element("title", part.said) if part.said else None
        width = percent(max(0.0, min(bounded(part.share), 1 - at)))
        drawn.append(element("rect", title, x=percent(at), width=width, height="100%", class_=_fill(part.color)))
        at = min(1.0, at + bounded(part.share))
    drawn += [_upright(mark, "mark")] if mark is not None else []
    return element("svg", *drawn, class_="bar", aria_hidden="true")


def interval(low: float, high: float, mark: float, value: Part) -> Markup:
    """A range with the value in it, and a line at ``mark``: places from 0 to 1."""
    low, high, at, mark = (min(1.0, max(0.0, place)) for place in (low, high, value.share, mark))
    fill, width = _fill(value.color), percent(high - low)
    return element(
        "svg",
        _upright(mark, "mark"),
        element("rect", x=percent(low), width=width, y="38%", height="24%", class_=fill),
        element("circle", cx=percent(at), cy="50%", r="5", class_=fill),
        class_="bar",
        aria_hidden="true",
    )


def legend(entries: Iterable[tuple[int | str, str]]) -> Markup:
    items = (
        element("li", element("svg", element("rect", width="100%", height="100%", class_=_fill(color))), said)
        for color, said in entries
    )
    return element("ul", *items, class_="legend")


def _fill(color: int | str) -> str:
    return f"f-{color}" if color in LETTERS else f"f{color}" if isinstance(color, int) else "f8"


def plot(
    title: str,
    x: Axis,
    y: Axis,
    lines: Sequence[Line],
    *,
    tips: Sequence[Tip] = (),
    band: tuple[float, float] | None = None,
    levels: Sequence[tuple[float, str]] = (),
    divided: Sequence[float] = (),
) -> Markup:
    """Curves and dots over two axes, with labels outside of them: no line strikes one out.

    Args:
        tips: what the script shows under the pointer.
        band: a range of the y axis, 0 to 1, that is shaded.
        levels: places on the y axis with a dashed line each, and its name; empty for none.
        divided: places on the x axis with a line each.
    """
    drawn = [*_rules(y), *(_upright(at, "grid") for at in divided)]
    if band is not None:
        low, high = band
        drawn.append(element("rect", y=percent(1 - high), height=percent(high - low), width="100%", class_="band"))
    drawn += [_level(1 - height, "level") for height, _ in levels]
    named = [(1 - line.places[-1][1], line.label, f"t{line.color}") for line in lines if line.places and line.label]
    named += [(1 - height, name, "") for height, name in levels if name]
    paths = (element("path", d=_path(line), class_=f"{line.kind} s{line.color}") for line in lines if line.places)
    box = {"viewBox": f"0 0 {FINE} {FINE}", "preserveAspectRatio": "none"}
    drawn.append(element("svg", *paths, **box, width="100%", height="100%", overflow="visible"))
    drawn += [*_labels(x, y), *_names(named)]
    said = [[round(tip.place, 5), tip.said] for tip in tips]
    tipped = json.dumps(said, separators=(",", ":")) if said else None
    return _figure(title, "plot named" if named else "plot", drawn, tipped)


def histogram(title: str, x: Axis, counts: Sequence[int], y: Axis) -> Markup:
    """Bars side by side over the x axis from end to end."""
    width = 1 / len(counts)
    bars = []
    for index, count in enumerate(counts):
        left, height = index * width + width * 0.04, y.place(count)
        place = {"x": percent(left), "width": percent(width * 0.92), "y": percent(1 - height)}
        bars += [element("rect", **place, height=percent(height), class_="f1")] if count else []
    return _figure(title, "plot low", [*_rules(y), *bars, *_labels(x, y)])


def _figure(title: str, class_: str, drawn: Iterable[Markup], tips: str | None = None) -> Markup:
    picture = element("svg", *drawn, class_=class_, role="img", aria_label=title, data_tips=tips)
    return element("figure", element("figcaption", title), picture, class_="chart")


def _upright(at: float, class_: str) -> Markup:
    return element("line", x1=percent(at), x2=percent(at), y1="0", y2="100%", class_=class_)


def _level(at: float, class_: str) -> Markup:
    return element("line", x1="0", x2="100%", y1=percent(at), y2=percent(at), class_=class_)


def _rules(y: Axis) -> list[Markup]:
    return [_level(1 - y.place(tick), "base" if tick == 0 else "grid") for tick, _ in y.ticks]


def _labels(x: Axis, y: Axis) -> list[Markup]:
    """Of both axes, to the left of the plot and below it."""
    drawn = [
        element("text", said, x="0", y=percent(1 - y.place(tick)), dx="-8", dy="4", text_anchor="end", class_="tick")
        for tick, said in y.ticks
    ]
    for at, said in ((x.place(tick), said) for tick, said in x.ticks):
        anchor = "start" if at < 0.01 else "end" if at > 0.99 else "middle"
        drawn.append(element("text", said, x=percent(at), y="100%", dy="16", text_anchor=anchor, class_="tick"))
    return drawn


def _path(line: Line) -> str:
    points = [f"{round(x * FINE)} {round((1 - y) * FINE)}" for x, y in line.places]
    return "M" + "L".join(points) if line.kind == "line" else "".join(f"M{point}h0" for point in points)


def _names(wanted: list[tuple[float, str, str]]) -> list[Markup]:
    """Names to the right of the plot, each from the top at its height, pushed apart where they would meet."""
    wanted.sort()
    heights: list[float] = []
    for at, _, _ in wanted:  # downwards, then back up where the last ones would leave the plot
        heights.append(max(at, heights[-1] + APART if heights else 0.0))
    for index in reversed(range(len(heights))):
        heights[index] = min(heights[index], 1 - APART * (len(heights) - 1 - index))
    return [
        element("text", said, x="100%", y=percent(at), dx="8", dy="4", class_=f"label {color}".strip())
        for at, (_, said, color) in zip(heights, wanted, strict=True)
    ]
