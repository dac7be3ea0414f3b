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


def print_list(advisories: list[Advisory]) -> None:
    """The identifier of each, with its title and the releases of torch and macOS."""
    if not advisories:
        show([Text("no known wrong result")], PIPE_WIDTH)
        return
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for advisory in advisories:
        facts = [f"torch: {releases(advisory.torch)}"]
        if advisory.macos != AffectedSystems():
            facts.append(f"macOS: {systems(advisory.macos)}")
        if advisory.where:
            facts.append(f"on {advisory.where}" if advisory.chips else advisory.where)
        grid.add_row(Text(advisory.id, style="bold"), Text.assemble(advisory.title, "\n", ("; ".join(facts), "dim")))
    counted = f"{len(advisories)} known wrong result{'' if len(advisories) == 1 else 's'}"
    show([grid, Text(), Text(f"{counted}. More about one: mpsprobe advisories show ID")], PIPE_WIDTH)


def print_details(advisories: list[Advisory]) -> None:
    """All that is known of each."""
    parts: list[RenderableType] = []
    for advisory in advisories:
        grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for label, text in _facts(advisory):
            grid.add_row(f"  {label}", Text(text))
        parts += [Text.assemble((advisory.id, "bold"), "  ", advisory.title), grid, Text()]
    show(parts[:-1], PIPE_WIDTH)


def _facts(advisory: Advisory) -> Iterator[tuple[str, str]]:
    yield "operators", ", ".join(advisory.operators)
    if advisory.reached_from:
        yield "called by", ", ".join(advisory.reached_from)
    yield "when", advisory.condition
    yield "what", advisory.symptom
    yield "do", advisory.workaround
    yield "torch", releases(advisory.torch)
    yield "macOS", systems(advisory.macos)
    if advisory.where:
        yield "hardware", advisory.where
    yield "known by", advisory.basis
    yield "sources", ", ".join(advisory.sources)
