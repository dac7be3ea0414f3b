"""How the ``advisories`` commands look, on a terminal as wide as it is, and in a pipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mpsprobe.schemas import AffectedSystems
from mpsprobe_exporters.advisories import releases, systems
from mpsprobe_exporters.document import Column, Document, Row, Section, Table
from mpsprobe_exporters.plain_text import plural
from mpsprobe_exporters.terminal.drawing import show

if TYPE_CHECKING:
    from mpsprobe_coverage.knowledge.advisories.model import Advisory
    from mpsprobe_coverage.knowledge.kernels.registered import RegisteredFamily

PIPE_WIDTH = 100
ID = Column("advisory", "name")


def print_list(advisories: list[Advisory]) -> None:
    rows: list[tuple[str, str, str]] = []
    for advisory in advisories:
        facts = [f"torch: {releases(advisory.torch, brief=True)}"]
        if advisory.macos != AffectedSystems():
            facts.append(f"macOS: {systems(advisory.macos)}")
        if advisory.where:
            facts.append(f"on {advisory.where}" if advisory.chips else advisory.where)
        rows.append((advisory.id, advisory.title, "; ".join(facts)))
    _list(rows, "known wrong result", "mpsprobe advisories show ID")


def print_registered(family: RegisteredFamily, advisories: Sequence[Mapping[str, Any]]) -> None:
    """The same of a backend of another framework, slow spots among them."""
    rows = [
        (advisory["id"], advisory["title"], f"{advisory['kind']}; {family.label}: {_seen(advisory)}")
        for advisory in advisories
    ]
    _list(rows, "known problem", f"mpsprobe advisories show ID --backend {family.name}")


def _list(advisories: Sequence[tuple[str, str, str]], what: str, more: str) -> None:
    # what it is, then on a line below where it is
    rows = [row for identifier, title, facts in advisories for row in ((identifier, title), ("", facts))]
    counted = f"{plural(len(advisories), what)}. More about one: {more}" if advisories else f"no {what}"
    sections = [Section("", [Table((ID, Column("what, and where")), rows)] if rows else [])]
    show(Document("Advisories", headline=counted, sections=sections), PIPE_WIDTH)


def print_details(advisories: list[Advisory]) -> None:
    titles = ("operators", "called by", "when", "what", "do", "torch", "macOS", "hardware", "known by", "sources")
    rows = [
        (
            advisory.id, advisory.title, ", ".join(advisory.operators), ", ".join(advisory.reached_from),
            advisory.condition, advisory.symptom, advisory.workaround, releases(advisory.torch),
            systems(advisory.macos), advisory.where, advisory.basis, ", ".join(advisory.sources),
        )
        for advisory in advisories
    ]  # fmt: skip
    _details(titles, rows)


def print_registered_details(family: RegisteredFamily, advisories: Sequence[Mapping[str, Any]]) -> None:
    """The same of a backend of another framework."""
    titles = ("operators", "kind", "when", "what", "do", family.label, "known by", "sources")
    rows = [
        (
            advisory["id"], advisory["title"], ", ".join(advisory["operators"]) or "not established", advisory["kind"],
            advisory["condition"], advisory["symptom"], advisory["workaround"], _seen(advisory), advisory["basis"],
            ", ".join(advisory["sources"]),
        )
        for advisory in advisories
    ]  # fmt: skip
    _details(titles, rows)


def _details(titles: Sequence[str], rows: Sequence[Row]) -> None:
    table = Table((ID, Column("title"), *map(Column, titles)), rows, entries=True)
    show(Document("Advisories", sections=[Section("", [table])]), PIPE_WIDTH)


def _seen(advisory: Mapping[str, Any]) -> str:
    return f"seen on {' and '.join(advisory['releases'])}" if advisory["releases"] else "not established"
