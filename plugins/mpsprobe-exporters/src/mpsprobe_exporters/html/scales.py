"""Axes for people: ticks at round numbers in one unit, and places on an axis as percentages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from mpsprobe_exporters.units import BEYOND, scale_of

TINY = 1e-300  # below it a step between ticks is no number any more


class Axis(NamedTuple):
    """A linear axis from ``low`` to ``high``; ``ticks`` are pairs of a value and its label."""

    low: float
    high: float
    ticks: list[tuple[float, str]]

    def place(self, value: float) -> float:
        """Where ``value`` is, from 0 at the low end to 1 at the high one; what is outside goes to the end."""
        span = self.high - self.low
        return min(1.0, max(0.0, (value - self.low) / span)) if span > 0 else 0.0


def bounded(value: float) -> float:
    """``value`` as a float that nothing overflows with."""
    return float(max(-BEYOND, min(BEYOND, value)))


def axis(
    values: Sequence[float], unit: str, most: int = 5, *, zero: bool = True, whole: bool = False, exact: bool = False
) -> Axis:
    """An axis that holds ``values``, with at most about ``most`` ticks.

    Args:
        values: what it has a place for.
        unit: of the values, a key of ``units.SCALES``.
        most: ticks.
        zero: whether it begins at zero.
        whole: whether there is nothing between two whole numbers.
        exact: whether it ends where the values do, not at the next tick.
    """
    known = [bounded(value) for value in values] or [0.0]
    low = min(0.0, *known) if zero else min(known)
    high = max(0.0, *known) if zero else max(known)
    if high - low < TINY:
        high = low + (abs(low) if abs(low) > TINY else 1.0)
    step = _round_step((high - low) / most)
    step = max(1.0, step) if whole else step
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    size, symbol = scale_of(max(abs(first), abs(last)) * step, unit)
    places = (index * step for index in range(first, last + 1))
    ticks = [(at, f"{at / size:,.10g} {symbol}".rstrip() if at else "0") for at in places]
    if zero and not exact:
        return Axis(first * step, last * step, ticks)
    return Axis(low, high, [one for one in ticks if low <= one[0] <= high])


def percent(fraction: float) -> str:
    """``12.5%``, as SVG takes it."""
    return f"{100 * fraction:.2f}".rstrip("0").rstrip(".") + "%"


def thinned(count: int, most: int) -> list[int]:
    """At most ``most`` positions out of ``count``, evenly spread, with the first and the last."""
    if count <= most:
        return list(range(count))
    return sorted({round(index * (count - 1) / (most - 1)) for index in range(most)})


def _round_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, at least ``rough``."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= rough * 0.999), 10 * power)
