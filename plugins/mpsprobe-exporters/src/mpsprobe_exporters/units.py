"""Amounts in words: every format writes times, bytes, counts, shares and readings of probes with these functions."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeVar

Amount = TypeVar("Amount", int, float)
# More than any run has of anything. A report may hold any number; beyond this one it is not written out.
BEYOND = 10**18

# What one of the unit is -> how many of the smallest it takes, largest first.
SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")),
    "bytes": ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    "in short": ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"), (1.0, "")),
    "mj": ((1e6, "kJ"), (1e3, "J"), (1.0, "mJ")),
    "j": ((1e3, "kJ"), (1.0, "J")),
    "mw": ((1e6, "kW"), (1e3, "W"), (1.0, "mW")),
    "w": ((1e3, "kW"), (1.0, "W")),
    "mhz": ((1e3, "GHz"), (1.0, "MHz")),
    "celsius": ((1.0, "°C"),),
    "percent": ((1.0, "%"),),
}
PLAIN = ((1.0, ""),)
ONE_DECIMAL = frozenset({"bytes", "in short"})  # what people compare by its size; the others have three digits


def measured(value: float, unit: str) -> str:
    """``35.2 ms``, ``1.5 GB``, ``1.40 GHz``, ``812 mJ``: an amount of ``unit`` (a key of ``SCALES``, or anything else
    for a bare number) in the largest unit of which there is one.
    """
    size = min(abs(value), float(BEYOND))
    factor, symbol = scale_of(size, unit)
    written = plain(size) if factor == 1 else f"{size / factor:,.1f}" if unit in ONE_DECIMAL else amount(size / factor)
    return f"{'-' if value < 0 else ''}{written}{'' if symbol in ('', '%') else ' '}{symbol}"


def scale_of(size: float, unit: str) -> tuple[float, str]:
    """How many of the smallest unit the one is that ``size`` (not below zero) is written in, and its symbol."""
    near = 0.99995 if unit in ONE_DECIMAL else 0.9995  # what is rounded to 1,000 of a unit is one of the next
    scale = SCALES.get(unit, PLAIN)
    return next((unit for unit in scale if size >= unit[0] * near), scale[-1])


def duration(nanoseconds: float) -> str:
    """``1.23 s``, ``35.2 ms``, ``812 µs``: three digits."""
    return measured(nanoseconds, "ns")


def byte_size(count: float) -> str:
    """``0 B``, ``812 B``, ``1.5 kB``, ``25.2 MB``: powers of 1000."""
    return measured(count, "bytes")


def quantity(count: int) -> str:
    """A large count in short: ``812``, ``45.1 k``, ``109.5 M``, ``70.6 B`` (billion)."""
    return measured(count, "in short")


def number(count: int) -> str:
    """``1,234``. What no run can reach is not written out."""
    return f"{count:,}" if count < BEYOND else f"over {BEYOND:,}"


def amount(value: float) -> str:
    """``7.42``, ``74.2``, ``742``, ``7,421``."""
    value = min(value, BEYOND)
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:,.{digits}f}"


def plain(value: float) -> str:
    """``12``, ``7.42``: a bare number, without decimals where it is whole."""
    return f"{value:,.0f}" if value == int(value) else amount(value)


def percent(fraction: float) -> str:
    """``<0.1%``, ``0.5%``, ``15%``: a share, with a decimal below a tenth."""
    share = 100 * min(fraction, float(BEYOND))
    if 0 < share < 0.05:
        return "<0.1%"
    return f"{share:,.{1 if 0 < abs(share) < 9.95 else 0}f}%"


def fraction(part: float | None, whole: float) -> float | None:
    """``part`` of ``whole``, for ``percent``; ``None`` where one of them is not known."""
    return None if part is None or whole <= 0 else min(part, BEYOND) / min(whole, BEYOND)


def ratio(value: float) -> str:
    """``0.980``, ``1.110``, ``250``: what a change is read from, to the third decimal."""
    value = min(value, float(BEYOND))
    return f"{value:.3f}" if value < 100 else f"{value:,.0f}"


def between(write: Callable[[Amount], str], *amounts: Amount) -> str:
    """``8``, ``8 to 12``: the least and the most of ``amounts``."""
    return " to ".join(dict.fromkeys((write(min(amounts)), write(max(amounts)))))


def split_unit(name: str, units: Container[str] = SCALES) -> tuple[str, str]:
    """A reading's name without its unit, and the unit: the last of its parts that is one (``gpu_mj_per_sample``)."""
    parts = name.split("_")
    place = next((index for index in reversed(range(len(parts))) if parts[index].lower() in units), None)
    if place is None:
        return name, ""
    return "_".join(part for index, part in enumerate(parts) if index != place), parts[place].lower()


def reading(name: str, value: float) -> str:
    """``812 mJ``, ``1.20 s``, ``48.0 GB``: a reading of a probe, the unit of which stands in its name."""
    return measured(value, split_unit(name)[1])
