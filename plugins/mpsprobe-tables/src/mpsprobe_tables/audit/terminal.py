"""The audit on a terminal, and as text in a file."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mpsprobe_coverage.commands.drawing import drawn
from mpsprobe_tables.audit import grids
from mpsprobe_tables.audit.result import Audit

FILE_WIDTH = 120  # columns where no terminal is


def text(audit: Audit, *, colour: bool) -> str:
    """Everything that the table format shows; ``colour`` for a terminal, whose width is then kept."""
    console = Console(highlight=False) if colour else Console(highlight=False, width=FILE_WIDTH, no_color=True)
    return drawn(_parts(audit), console) + "\n"


def _parts(audit: Audit) -> Iterator[RenderableType]:
    for line in audit.internal:
        yield Text(f"internal error: {line}", style="bold red")
    if len(audit.releases) > 1:
        yield from _table(grids.releases(audit))
        yield from _table(grids.releases(audit, gradient=True))
    one = audit.focus
    yield Text(f"torch {one.release} against the expectations of its own tests", style="bold")
    scope = f"{audit.entries} OpInfo entries" if not audit.only else ", ".join(audit.only)
    yield Text(f"{scope}, {audit.samples:,} samples, traced with torch {audit.torch_version}")
    yield Text()
    yield from _table(grids.figures(one), titled=False)
    yield from _lines("Most important", grids.two_figures(one))
    yield from _table(grids.lists(one))
    for kind in ("missed", "false"):
        yield from _blocks(grids.disagreeing(one, kind))
    yield from _blocks(grids.exceptions(one))
    yield from _lines("Dtypes that the CPU has and MPS does not claim", grids.beyond(one))
    for made in audit.untested:
        yield from _table(grids.untested(made))
    if audit.modules:
        yield from _table(grids.modules(audit.modules))
        yield from _blocks(grids.disagreeing_modules(audit.modules))


def _table(grid: grids.Grid, *, titled: bool = True) -> Iterator[RenderableType]:
    if not grid.rows:
        return
    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for position, heading in enumerate(grid.headings):
        drawn.add_column(heading, justify="right" if position in grid.numbers else "left", no_wrap=position == 0)
    for row in grid.rows:
        drawn.add_row(*(Text(cell.replace(" / ", "/")) for cell in row))
    if titled:
        yield Text(grid.title, style="bold")
    yield drawn
    yield Text()


def _blocks(grid: grids.Grid) -> Iterator[RenderableType]:
    """Rows of words, each as a line with what it is about and, below it, everything else."""
    if not grid.rows:
        return
    yield Text(f"{grid.title} ({len(grid.rows)})", style="bold")
    for row in grid.rows:
        first, dtypes, *rest = row
        yield Text.assemble((first, "bold"), "  ", dtypes)
        for heading, cell in zip(grid.headings[2:], rest, strict=True):
            yield Padding(Text.assemble((f"{heading}: ", "dim"), cell), (0, 0, 0, 4))
    yield Text()


def _lines(title: str, lines: Iterator[str]) -> Iterator[RenderableType]:
    found = list(lines)
    if found:
        yield Text(title, style="bold")
        yield from (Padding(Text(line), (0, 0, 0, 2)) for line in found)
        yield Text()
