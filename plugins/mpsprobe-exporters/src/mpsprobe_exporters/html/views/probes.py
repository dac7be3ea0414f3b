"""Probes: what was read beside time and memory, with its caveats, and what could not be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters.html import tables
from mpsprobe_exporters.html.markup import Markup, element, joined, name
from mpsprobe_exporters.html.scales import bounded
from mpsprobe_exporters.html.tables import Column, Field
from mpsprobe_exporters.plain_text import byte_size, number, one_line
from mpsprobe_exporters.profile_answer import amount, duration

if TYPE_CHECKING:
    from mpsprobe.schemas import ProbeReading, ProfileCell, ProfileReport

MOST_VALUES = 200
# The words of names that are units, and how they are written: from that size on, in that unit.
UNITS = {
    "mj": ((1e6, "kJ"), (1e3, "J"), (1.0, "mJ")),
    "mw": ((1e6, "kW"), (1e3, "W"), (1.0, "mW")),
    "celsius": ((1.0, "°C"),),
    "percent": ((1.0, "%"),),
}
COLUMNS = (Column("Probe"), Column("Process", True), Column("Quantity"), Column("Value", True), Column("Caveats"))
MISSING = (Column("Probe"), Column("Why it could not measure"))


def probes(report: ProfileReport, cell: ProfileCell) -> Markup | None:
    """The readings of a cell and the probes that could not run."""
    several = any(one.process for one in cell.readings)
    rows = [
        _row(one, key, value, several) for one in cell.readings for key, value in list(one.values.items())[:MOST_VALUES]
    ]
    missing = [(tables.words(name(one.probe, 40)), tables.words(one_line(one.reason))) for one in cell.unavailable]
    notes = [element("li", one_line(note)) for note in cell.notes]
    if not rows and not missing and not notes:
        return None
    return joined(
        [
            tables.table("Read over the timed steps", COLUMNS, rows) if rows else None,
            tables.table("Not measured", MISSING, missing) if missing else None,
            element("ul", *notes) if notes else None,
        ]
    )


def written(key: str, value: float | str) -> str:
    """A value by the unit in its name: ``12.4 ms`` for ``…_ns``, ``81.2 J`` for ``gpu_mj_per_step``."""
    if isinstance(value, str):
        return one_line(value, 200)
    found = bounded(value)
    words = key.lower().split("_")[::-1]
    if "bytes" in words:
        return byte_size(int(found))
    if "ns" in words:
        return duration(found)
    for scale in (UNITS[word] for word in words if word in UNITS):
        size, unit = next((one for one in scale if abs(found) >= one[0]), scale[-1])
        return f"{amount(found / size)} {unit}"
    return number(int(found)) if found == int(found) else amount(found)


def _row(one: ProbeReading, key: str, value: float | str, several: bool) -> tuple[Field, ...]:
    sorting = None if isinstance(value, str) else bounded(value)
    return (
        tables.words(name(one.probe, 40)),
        tables.count(one.process) if several else Field(None),
        tables.words(name(key, 80)),
        Field(written(key, value), sorting),
        tables.words("; ".join(one_line(caveat) for caveat in one.caveats)),
    )
