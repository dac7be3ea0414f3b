"""Probes: what was read beside time and memory, with its caveats, and what could not be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters.html import tables
from mpsprobe_exporters.html.markup import Markup, element, joined, name
from mpsprobe_exporters.html.scales import bounded
from mpsprobe_exporters.html.tables import Column, Field
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.units import reading

if TYPE_CHECKING:
    from mpsprobe.schemas import ProbeReading, ProfileCell, ProfileReport

MOST_VALUES = 200
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


def _row(one: ProbeReading, key: str, value: float | str, several: bool) -> tuple[Field, ...]:
    sorting = None if isinstance(value, str) else bounded(value)
    return (
        tables.words(name(one.probe, 40)),
        tables.count(one.process) if several else Field(None),
        tables.words(name(key, 80)),
        Field(one_line(value, 200) if isinstance(value, str) else reading(key, value), sorting),
        tables.words("; ".join(one_line(caveat) for caveat in one.caveats)),
    )
