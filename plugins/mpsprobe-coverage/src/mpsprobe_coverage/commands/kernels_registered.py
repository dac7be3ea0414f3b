"""``mpsprobe kernels list | show | since | diff`` for a backend of another framework than torch."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mpsprobe_coverage.commands.kernels_output import PIPE_WIDTH, show_table
from mpsprobe_coverage.knowledge.kernels.registered import Entry, types
from mpsprobe_exporters.document import Column, Document, Section, Table
from mpsprobe_exporters.plain_text import plural
from mpsprobe_exporters.terminal.drawing import show

if TYPE_CHECKING:
    from mpsprobe_coverage.knowledge.kernels.registered import RegisteredFamily
    from mpsprobe_exporters.document import Row


OPERATOR = Column("Operator", "name")


def print_list(family: RegisteredFamily, document: Any) -> None:
    if isinstance(document, list):
        rows = [(one["release"], _counted(one["registrations"]), _besides(one)) for one in document]
        show_table([Column(title) for title in (family.label, "On every macOS", "Besides")], rows)
        return
    lines = [f"wheel {name}, sha256 {digest}" for name, digest in document.get("wheels", {}).items()]
    lines += [f"built for macOS {document['macos_minimum']} or newer"] if document.get("macos_minimum") else []
    sections = [_kernels("on every macOS", document["registrations"])]
    for group in document["conditional"]:
        condition = f"from macOS {group['macos']} on" if group["macos"] else f"where {', '.join(group['asks'])}"
        sections.append(_kernels(f"besides, {condition}", group["registrations"]))
    name = f"{family.name} {document['release']}"
    show(Document(name, headline=name, lines=lines, sections=sections), PIPE_WIDTH)


def print_shown(rows: Sequence[dict[str, Any]]) -> None:
    """Each operator with its kernels, releases that follow each other with the same ones together."""
    cells: list[Row] = []
    for operator, of_one in itertools.groupby(rows, key=lambda row: row["operator"]):
        name = operator
        for kernels, group in itertools.groupby(of_one, key=lambda row: [types(one) for one in row["registrations"]]):
            releases = [row["release"] for row in group]
            span = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
            for kernel in kernels or ["no kernel: the CPU"]:
                cells.append((name, span, kernel))
                name = span = ""
    show_table([OPERATOR, Column("Release", "verdict"), Column("Kernels")], cells)


def print_since(rows: Sequence[dict[str, Any]]) -> None:
    cells = [(row["operator"], row["native_since"] or "not in the newest") for row in rows]
    show_table([OPERATOR, Column("Native since")], cells)


def print_diff(difference: dict[str, Any]) -> None:
    name = f"{difference['backend']} {difference['from']} → {difference['to']}"
    counts = f"operators: {len(difference['gained'])} native now, {len(difference['lost'])} no longer"
    sections = [_kernels(title, entries) for title, entries in difference["registrations"].items() if entries]
    show(Document(name, headline=name, lines=[counts], sections=sections), PIPE_WIDTH)


def _counted(entries: Sequence[Entry]) -> str:
    operators = len({one["operator"] for one in entries})
    return f"{plural(len(entries), 'registration')} of {plural(operators, 'operator')}" if entries else "nothing"


def _besides(document: dict[str, Any]) -> str:
    groups = document["conditional"]
    return ", ".join(f"{len(g['registrations'])} from macOS {g['macos'] or '?'} on" for g in groups)


def _kernels(title: str, entries: Sequence[Entry]) -> Section:
    rows = [(one["operator"], types(one)) for one in sorted(entries, key=lambda one: one["operator"])]
    return Section(f"{title}: {_counted(entries)}", [Table((OPERATOR, Column("Kernel")), rows)])
