"""The memory that a workload was predicted to need: a line, the peak by category, and what holds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import sources
from mpsprobe_exporters.document import Column, Section, Tile, Tiles, bullets, table
from mpsprobe_exporters.module_names import fold_names
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.units import byte_size

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, MemoryHolder
    from mpsprobe_exporters.document import Fields

TITLE = "Memory"
PEAK = "What is alive at the peak"
FIELDS: Fields[CoverageReport, MemoryHolder] = (
    (Column("what", "name"), lambda _, one: one.category),
    (Column("bytes", "bytes"), lambda _, one: one.bytes),
    (Column("storages", "number", rank=3), lambda _, one: one.storages),
    (Column("by", "name", rank=2), lambda _, one: one.operator),
    (Column("where", "names", rank=4), lambda _, one: tuple(fold_names(one.modules))),
    (Column("line", "places", rank=1), lambda report, one: sources.lines(_site(one), report.environment)),
)


def line(report: CoverageReport) -> list[str]:
    """``Memory: 437.9 MB of parameters, peak 2.3 GB (backward); …``; nothing where the report does not know."""
    memory = report.memory
    if memory is None:
        return []
    parameters = memory.by_category.get("parameters", 0)
    of = f"{byte_size(parameters)} of parameters, " if parameters else ""
    phase = f" ({one_line(memory.phase, 40)})" if memory.phase else ""
    asked = byte_size(memory.reserved_bytes)
    return [f"Memory: {of}peak {byte_size(memory.peak_bytes)}{phase}; the allocator asks Metal for {asked}"]


def sections(report: CoverageReport) -> Iterator[Section]:
    """The figures, what is alive at the peak, and what is in no figure."""
    memory = report.memory
    if memory is None:
        return
    tiles = [Tile(one_line(category, 40), byte_size(size)) for category, size in memory.by_category.items() if size]
    rows = table(FIELDS, report, memory.holders, PEAK)
    sizes = [(one.what, one.bytes) for one in memory.not_counted]
    left = bullets(
        f"not counted: {one_line(what, 400)}" + (f" (up to {byte_size(size)})" if size else "") for what, size in sizes
    )
    yield Section(
        f"{TITLE} at the peak: {byte_size(memory.peak_bytes)}", [Tiles(tiles), *rows, *left], view=TITLE, depth="all"
    )


def _site(one: MemoryHolder) -> list[str]:
    return [one.call_site] if one.call_site else []
