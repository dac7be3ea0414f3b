"""How the ``advisories`` commands look, on a terminal as wide as it is, and in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from mpsprobe.schemas import AffectedSystems
from mpsprobe_coverage.commands.drawing import show
from mpsprobe_exporters.advisories import releases, systems

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mpsprobe_coverage.advisories.model import Advisory

PIPE_WIDTH = 100


def print_list(found: list[Advisory]) -> None:
    """The identifier of each, and beside it its title and the releases of torch and macOS."""
    if not found:
        show([Text("no known wrong result")], PIPE_WIDTH)
        return
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for one in found:
        facts = [f"torch: {releases(one.torch)}"]
        if one.macos != AffectedSystems():
            facts.append(f"macOS: {systems(one.macos)}")
        if one.hardware:
            facts.append(one.hardware)
        grid.add_row(Text(one.id, style="bold"), Text.assemble(one.title, "\n", ("; ".join(facts), "dim")))
    counted = f"{len(found)} known wrong result{'' if len(found) == 1 else 's'}"
    show([grid, Text(), Text(f"{counted}; mpsprobe advisories show ID tells all of one")], PIPE_WIDTH)


def print_details(found: list[Advisory]) -> None:
    """All that is known of each."""
    parts: list[RenderableType] = []
    for one in found:
        grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for label, text in _facts(one):
            grid.add_row(f"  {label}", Text(text))
        parts += [Text.assemble((one.id, "bold"), "  ", one.title), grid, Text()]
    show(parts[:-1], PIPE_WIDTH)


def _facts(one: Advisory) -> Iterator[tuple[str, str]]:
    yield "operators", ", ".join(one.operators)
    if one.reached_from:
        yield "called by", ", ".join(one.reached_from)
    yield "when", one.condition
    yield "what", one.symptom
    yield "do", one.workaround
    yield "torch", releases(one.torch)
    yield "macOS", systems(one.macos)
    if one.hardware:
        yield "hardware", one.hardware
    yield "known by", one.basis
    yield "sources", ", ".join(one.sources)
