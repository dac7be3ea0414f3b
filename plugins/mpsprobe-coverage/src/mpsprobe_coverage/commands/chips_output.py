"""How the ``chips`` commands look, on a terminal as wide as it is, and in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from mpsprobe_coverage.commands.drawing import show
from mpsprobe_coverage.knowledge.chips.limits import Range, limits_of
from mpsprobe_coverage.knowledge.chips.store import GIB, Chip, sizes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mpsprobe_coverage.knowledge.chips.limits import Figure

PIPE_WIDTH = 100
COLUMNS = ("chip", "GPU family", "GPU cores", "GB/s", "memory in GB", "bfloat16 in")
BASES = {
    "published": "",
    "neighbours": "no figure for this size: shares of the sizes next to it",
    "recommended": "no figure for this size: the share of what is recommended on other Macs",
}


def print_list(chips: Iterable[Chip]) -> None:
    """A line for each."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in COLUMNS:
        table.add_column(title, overflow="fold")
    for chip in chips:
        memory = ", ".join(map(str, chip.memory_gib)) or "-"
        table.add_row(Text(chip.name, style="bold"), f"Apple{chip.family}", *_cores(chip), memory, chip.bf16)
    show([table, Text(), Text("More about one: mpsprobe chips show NAME")], PIPE_WIDTH)


def print_details(chip: Chip, memories: list[int]) -> None:
    """All that is known of one, and its limits with each of ``memories``, in bytes."""
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in _facts(chip):
        grid.add_row(f"  {label}", Text(text))
    parts: list[RenderableType] = [Text.assemble((chip.name, "bold"), "  ", chip.label), grid]
    for memory in memories:
        parts += [Text(), _limits(memory)]
    show(parts, PIPE_WIDTH)


def gib(low: int, high: int | None = None) -> str:
    """``10.67 GiB``, or ``10.67-11.84 GiB``."""
    first, last = f"{low / GIB:.2f}", f"{(high or low) / GIB:.2f}"
    return f"{first} GiB" if first == last else f"{first}-{last} GiB"


def _cores(chip: Chip) -> tuple[str, str]:
    return " or ".join(map(str, chip.gpu_cores)), " or ".join(f"{one:g}" for one in chip.bandwidth_gb_per_s)


def _facts(chip: Chip) -> Iterator[tuple[str, str]]:
    cores, bandwidth = _cores(chip)
    yield "GPU", f"family Apple{chip.family}, {cores} cores"
    yield "bandwidth", f"{bandwidth} GB/s"
    yield "memory", sizes(chip.memory_gib) if chip.memory_gib else "no source with all sizes was found"
    yield "bfloat16", "in software: Metal emulates it" if chip.bf16 == "software" else "in hardware"
    yield "macOS", f"from {chip.macos}" if chip.macos else "no source for the first one was found"
    yield "sources", ", ".join(chip.sources)


def _limits(memory: int) -> Table:
    limits = limits_of(memory)
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"with {memory / GIB:g} GB", style="bold"), "")
    for label, found in (("recommended", limits.recommended), ("largest buffer", limits.largest_buffer)):
        grid.add_row(f"  {label}", _range(found))
    return grid


def _range(found: Range) -> Text:
    basis = BASES[found.basis]
    known = "; ".join(map(_figure, found.figures))
    return Text.assemble(gib(found.low, found.high), f" ({basis})" if basis else "", "\n", (known, "dim"))


def _figure(one: Figure) -> str:
    value = f"{one.value:g} of it" if one.value < 1 else gib(int(one.value))
    about = [one.chip, f"{one.memory_bytes / GIB:g} GB", one.macos and f"macOS {one.macos}", one.date]
    return f"{value} ({', '.join(filter(None, about))}: {one.source})"
