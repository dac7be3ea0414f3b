"""Names and values of probes' readings in words: the unit stands in the name (``gpu_mj``, ``window_ns``)."""

from __future__ import annotations

from mpsprobe_exporters.plain_text import BEYOND, byte_size, one_line
from mpsprobe_exporters.profile_answer import amount, duration

# Unit in a name -> how it is written, and from which amount on the next larger one reads better.
WRITTEN = {
    "mj": ("mJ", "J"),
    "mw": ("mW", "W"),
    "j": ("J", "kJ"),
    "w": ("W", "kW"),
    "mhz": ("MHz", "GHz"),
    "celsius": ("°C", None),
    "percent": ("%", None),
}
AMOUNTS = {"ns", "bytes", *WRITTEN}


def unit_place(name: str, units: set[str] | frozenset[str]) -> int | None:
    """Which of the parts of a name between underscores is its unit: the last that is one."""
    parts = name.split("_")
    return next((index for index in reversed(range(len(parts))) if parts[index].lower() in units), None)


def spoken(name: str) -> str:
    """``gpu per sample`` for ``gpu_mj_per_sample``."""
    place = unit_place(name, AMOUNTS)
    parts = [part for index, part in enumerate(name.split("_")) if index != place]
    return one_line(" ".join(parts), 60) or one_line(name, 60)


def with_unit(name: str, value: float) -> str:
    """``812 mJ``, ``1.20 s``, ``48.0 GB``; what has no known unit as it is."""
    place = unit_place(name, AMOUNTS)
    unit = name.split("_")[place].lower() if place is not None else ""
    if abs(value) >= BEYOND:
        return f"{float(value):.3g} {unit}".strip()
    if unit == "ns":
        return duration(value) if value >= 0 else f"-{duration(-value)}"
    if unit == "bytes":
        return byte_size(round(value)) if value >= 0 else f"-{byte_size(round(-value))}"
    if unit not in WRITTEN:
        return f"{value:,.6g}"
    small, large = WRITTEN[unit]
    sign, size = "-" if value < 0 else "", abs(value)
    return f"{sign}{amount(size / 1000)} {large}" if large and size >= 1000 else f"{sign}{amount(size)} {small}"
