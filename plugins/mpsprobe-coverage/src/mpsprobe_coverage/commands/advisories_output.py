"""How the ``advisories`` commands look, on a terminal as wide as it is, and in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from mpsprobe.schemas import AffectedSystems
from mpsprobe_coverage.commands.drawing import show
from mpsprobe_exporters.advisories import releases, systems

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mpsprobe_coverage.knowledge.advisories.model import Advisory
    from mpsprobe_coverage.knowledge.kernels.registered import RegisteredFamily

PIPE_WIDTH = 100


def print_list(advisories: list[Advisory]) -> None:
    """The identifier of each, with its title and the releases of torch and macOS."""
    rows = []
    for advisory in advisories:
        facts = [f"torch: {releases(advisory.torch)}"]
        if advisory.macos != AffectedSystems():
            facts.append(f"macOS: {systems(advisory.macos)}")
        if advisory.where:
            facts.append(f"on {advisory.where}" if advisory.chips else advisory.where)
        rows.append((advisory.id, advisory.title, "; ".join(facts)))
    _list(rows, "known wrong result", "mpsprobe advisories show ID")


def print_registered(family: RegisteredFamily, advisories: Sequence[Mapping[str, Any]]) -> None:
    """The same of a backend of another framework, slow spots among them."""
    rows = [(one["id"], one["title"], f"{one['kind']}; {family.label}: {_seen(one)}") for one in advisories]
    _list(rows, "known problem", f"mpsprobe advisories show ID --backend {family.name}")


def _list(rows: Sequence[tuple[str, str, str]], what: str, more: str) -> None:
    if not rows:
        show([Text(f"no {what}")], PIPE_WIDTH)
        return
    grid = _grid()
    for identifier, title, facts in rows:
        grid.add_row(Text(identifier, style="bold"), Text.assemble(title, "\n", (facts, "dim")))
    counted = f"{len(rows)} {what}{'' if len(rows) == 1 else 's'}"
    show([grid, Text(), Text(f"{counted}. More about one: {more}")], PIPE_WIDTH)


def print_details(advisories: list[Advisory]) -> None:
    """All that is known of each."""
    _details([(one.id, one.title, list(_facts(one))) for one in advisories])


def print_registered_details(family: RegisteredFamily, advisories: Sequence[Mapping[str, Any]]) -> None:
    """The same of a backend of another framework."""
    found = []
    for one in advisories:
        facts = [("operators", ", ".join(one["operators"]) or "not established"), ("kind", one["kind"])]
        facts += [("when", one["condition"]), ("what", one["symptom"]), ("do", one["workaround"])]
        facts += [(family.label, _seen(one)), ("known by", one["basis"]), ("sources", ", ".join(one["sources"]))]
        found.append((one["id"], one["title"], facts))
    _details(found)


def _details(found: Sequence[tuple[str, str, Sequence[tuple[str, str]]]]) -> None:
    parts: list[RenderableType] = []
    for identifier, title, facts in found:
        grid = _grid()
        for label, text in facts:
            grid.add_row(f"  {label}", Text(text))
        parts += [Text.assemble((identifier, "bold"), "  ", title), grid, Text()]
    show(parts[:-1], PIPE_WIDTH)


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _seen(one: Mapping[str, Any]) -> str:
    return f"seen on {' and '.join(one['releases'])}" if one["releases"] else "not established"


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
