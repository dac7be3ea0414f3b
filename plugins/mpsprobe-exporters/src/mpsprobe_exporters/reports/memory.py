"""The memory that a workload was predicted to need: a line, the peak by category, what holds it; and by release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from mpsprobe.doubts import exceeds
from mpsprobe_exporters import sources
from mpsprobe_exporters.document import Column, Section, Tile, Tiles, bullets, runs, span, table, written
from mpsprobe_exporters.module_names import fold_names
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.units import between, byte_size, number

if TYPE_CHECKING:
    from mpsprobe import schemas
    from mpsprobe_exporters.document import Cell, Fields

TITLE = "Memory"
PEAK = "What is alive at the peak"
FIELDS: Fields[schemas.Environment, schemas.MemoryHolder] = (
    (Column("what", "name"), lambda _, holder: holder.category),
    (Column("bytes", "bytes"), lambda _, holder: holder.bytes),
    (Column("storages", "number", rank=3), lambda _, holder: holder.storages),
    (Column("by", "name", rank=2), lambda _, holder: holder.operator),
    (Column("where", "names", rank=4), lambda _, holder: tuple(fold_names(holder.modules))),
    (
        Column("line", "places", rank=1),
        lambda made, holder: sources.lines([holder.call_site] if holder.call_site else [], made),
    ),
)
LEAST_GROWTH = 1.05  # over what `empty_cache` leaves: less is not worth a line
LARGEST = 2**63  # a report may hold any number, also one that no float can
FIGURES = {"peak_bytes": "peak", "allocated_bytes": "handed out", "reserved_bytes": "asked of Metal"}
"""Their names in records → what a reader sees."""
ANSWERS = {"fits": "fits", "pressure": "under pressure", "raises": "does not fit", "unclear": "fits or not"}


class OfReleases(NamedTuple):
    """Neighbouring releases that need the same."""

    releases: str
    cell: schemas.MatrixCell


class Changed(NamedTuple):
    """A figure of two reports; ``ratio`` is new divided by old."""

    release: str | None
    name: str
    old: int
    new: int
    ratio: float | None


RELEASES: Fields[None, OfReleases] = (
    (Column("release"), lambda _, row: row.releases),
    *(
        (Column(title, "bytes"), lambda _, row, name=name: getattr(row.cell.memory, name, None))
        for name, title in FIGURES.items()
    ),
    (Column("on the Mac"), lambda _, row: _on_the_mac(row.cell)),
)
CHANGED: Fields[None, Changed] = (
    (Column("release", rank=2), lambda _, change: change.release),
    (Column("what"), lambda _, change: FIGURES[change.name]),
    (Column("old", "bytes", rank=1), lambda _, change: change.old),
    (Column("new", "bytes"), lambda _, change: change.new),
    (Column("ratio", "ratio", about="new divided by old"), lambda _, change: change.ratio),
)


def lines(memory: schemas.MemoryPrediction | None, *, short: bool = False) -> list[str]:
    """``Memory: needs 2.5 GB on the Mac (tensors 2.3 GB at the peak, …)``; nothing where the report does not know."""
    if memory is None:
        return []
    parameters = memory.by_category.get("parameters", 0)
    of = f", {byte_size(parameters)} of them parameters" if parameters else ""
    phase = f" in {one_line(memory.phase, 40)}" if memory.phase else ""
    peak = byte_size(memory.peak_bytes)
    if memory.range:
        low = "at most" if memory.range.low_bytes is None else f"{byte_size(memory.range.low_bytes)} to"
        peak = f"{low} {byte_size(memory.range.high_bytes)}"
    tensors = peak if short else f"{peak} at the peak{phase}{of}"
    lines = [f"Memory: needs {byte_size(memory.reserved_bytes)} on the Mac (tensors {tensors})"]
    if memory.range:
        where = ", ".join(one_line(reason, 160) for reason in memory.range.because)
        lines.append(f"A range, because how many are found is not known ({where}); all else here is its high end")
    if kept := memory.kept_output_bytes:
        more = f"{byte_size(kept)} more ({kept / max(memory.peak_bytes, 1):.0%})"
        lines.append(f"A loop that keeps the model's output over backward() needs {more}: del it before, keep the loss")
    return lines


def over_many_sizes(growth: schemas.ReservedGrowth, over: str, padded: str) -> str:
    """What ``over`` many sizes the allocator asks for, and what would save it; ``padded`` says to which lengths."""
    said = f"{over} PyTorch asks Metal for {byte_size(growth.reserved_bytes)}"
    said += f", for the largest alone {byte_size(growth.largest_bytes)}"
    cures = {
        f"padded {padded}": growth.padded_bytes,
        "with torch.mps.empty_cache() after each": growth.emptied_bytes,
        f"with PYTORCH_MPS_LOW_WATERMARK_RATIO={growth.low_watermark} on {growth.machine}": growth.low_watermark_bytes,
    }
    return f"{said}; " + ", ".join(f"{how} {byte_size(most)}" for how, most in cures.items() if most is not None)


def of_program(program: schemas.ProgramInfo | None) -> list[str]:
    """The same over the steps of a program, where one of the cures saves something."""
    growth = program.memory if program else None
    if growth is None or growth.reserved_bytes <= LEAST_GROWTH * growth.emptied_bytes:
        return []
    first = "" if growth.complete else "the first "
    over = f"Over {first}{number(growth.batches)} steps of {number(growth.sizes)} sizes"
    return [over_many_sizes(growth, over, "to 8 of these sizes")]


def sections(memory: schemas.MemoryPrediction | None, made: schemas.Environment) -> Iterator[Section]:
    if memory is None:
        return
    tiles = [Tile(one_line(category, 40), byte_size(size)) for category, size in memory.by_category.items() if size]
    rows = table(FIELDS, made, memory.holders, PEAK)
    left = bullets(
        f"not counted: {one_line(reason.what, 400)}" + (f" (up to {byte_size(reason.bytes)})" if reason.bytes else "")
        for reason in memory.not_counted
    )
    yield Section(
        f"{TITLE} at the peak: {byte_size(memory.peak_bytes)}", [Tiles(tiles), *rows, *left], view=TITLE, depth="all"
    )


def line_of_releases(report: schemas.MatrixReport) -> list[str]:
    """``Memory: needs 2.5 GB on the Mac (tensors 2.1 GB to 2.3 GB)``; nothing where no release has figures."""
    known = [cell.memory for cell in report.releases if cell.memory]
    if not known:
        return []
    figures = ("peak_bytes", "reserved_bytes")
    peak, asked = (between(byte_size, *(getattr(one, name) for one in known)) for name in figures)
    return [f"Memory: needs {asked} on the Mac (tensors {peak} at the peak)"]


def by_release(report: schemas.MatrixReport) -> Iterator[Section]:
    """The figures of each release, the newest first, successive equal ones as one."""
    cells = [cell for cell in report.releases[::-1] if cell.memory]
    names = [cell.target.version for cell in cells]
    said = [[written(of(None, OfReleases("", cell)), column.kind) for column, of in RELEASES] for cell in cells]
    rows = [OfReleases(span(names, run), cells[run[0]]) for run in runs(range(len(cells)), said.__getitem__)]
    yield Section(f"{TITLE} by release", table(RELEASES, None, rows, f"{TITLE} by release"), view=TITLE, depth="all")


def record(figures: schemas.MemoryFigures) -> dict[str, Cell]:
    return {"verdict": "memory", "reason": {name: getattr(figures, name) for name in FIGURES}}


def changes(report: schemas.ComparisonReport) -> list[Changed]:
    figures = (
        (figure, name, getattr(figure.old, name), getattr(figure.new, name))
        for figure in report.memory
        for name in FIGURES
    )
    return [
        Changed(one.release, name, old, new, new / old if old > 0 and max(old, new) < LARGEST else None)
        for one, name, old, new in figures
        if old != new
    ]


def _on_the_mac(cell: schemas.MatrixCell) -> str | None:
    return ANSWERS["raises" if exceeds(cell.fit) else cell.fit.answer] if cell.fit else None
