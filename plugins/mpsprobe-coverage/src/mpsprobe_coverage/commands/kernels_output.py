"""How the ``kernels`` commands look on a terminal, and in a pipe, where nothing is cut."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mpsprobe_coverage.knowledge.kernels.registered import Entry, RegisteredFamily, types
from mpsprobe_coverage.knowledge.kernels.table import FALLBACK, NATIVE, KernelTable
from mpsprobe_exporters.document import Column, Document, Names, Row, Section, Table
from mpsprobe_exporters.plain_text import plural
from mpsprobe_exporters.terminal.drawing import show

PIPE_WIDTH = 10_000  # columns: nothing is wrapped where no terminal is


def print_table(torch_release: str, table: KernelTable, key: str | None) -> None:
    of_torch = "" if table.library == "torch" else f", for torch {torch_release}"
    where = f"macOS {table.macos_minimum} or newer" if table.macos_minimum else table.backend.label
    facts = [f"wheel {table.wheel}" if table.wheel else f"read from {table.source or 'the running dispatcher'}"]
    facts += [f"sha256 {table.sha256}"] if table.sha256 else []
    facts += table.notes
    facts += [] if table.whole else ["It does not hold every kernel: an operator without an entry is unknown."]
    facts += [f"commit {table.commit}"] if table.commit else []
    groups = {
        NATIVE: table.native,
        "native from Python": table.python,
        FALLBACK: table.fallback,
        "only to raise": table.error,
        **{f"under {name}": operators for name, operators in _other_keys(table).items()},
    }
    counts = ", ".join(f"{len(operators)} {kind}" for kind, operators in groups.items() if operators)
    if key is not None:
        groups = {f"under {key}": table.keys.get(key, frozenset())}
    show(
        Document(
            title="Kernels",
            headline=f"{table.library} {table.release}{of_torch} on {where}",
            lines=[*facts, counts or f"nothing for {table.backend.label}"],
            sections=_named({kind: sorted(operators) for kind, operators in groups.items()}),
        ),
        PIPE_WIDTH,
    )


def print_releases(tables: Sequence[tuple[str, KernelTable]], key: str | None) -> None:
    counts = [_by_kind(table, key) for _, table in tables]
    kinds = [kind for kind in counts[-1] if any(of.get(kind) for of in counts)]
    library = tables[-1][1].library
    with_macos = any(table.macos_minimum for _, table in tables)
    second = library if library != "torch" else "macOS" if with_macos else "whole"
    rows = []
    for (torch_release, table), of in zip(tables, counts, strict=True):
        seconds = {library: table.release, "macOS": table.macos_minimum or "-", "whole": "yes" if table.whole else "no"}
        rows.append((torch_release, seconds[second], *(str(of.get(kind) or "-") for kind in kinds)))
    show_table([Column("torch"), *(Column(title, "number") for title in (second, *kinds))], rows)


def _by_kind(table: KernelTable, key: str | None) -> dict[str, int]:
    """How many operators each kind has, by the word that stands over its column."""
    if key is not None:
        return {key: len(table.keys.get(key, ()))}
    kinds = {NATIVE: table.native, "Python": table.python, FALLBACK: table.fallback, "raises": table.error}
    others = {key.removesuffix(table.backend.key): operators for key, operators in _other_keys(table).items()}
    return {kind: len(operators) for kind, operators in {**kinds, **others}.items()}


def _other_keys(table: KernelTable) -> dict[str, frozenset[str]]:
    return {key: operators for key, operators in table.keys.items() if key != table.backend.key}


def print_verdicts(verdicts: Sequence[tuple[str, Sequence[tuple[str, str]]]], key: str | None, whole: bool) -> None:
    """Each operator with its verdicts, releases that follow each other with the same one together.

    ``key`` is the dispatch key that they are for, if it is not that of dense tensors; ``whole``: of all releases.
    """
    rows: list[Row] = []
    for operator, history in verdicts:
        cell = operator
        for verdict, group in itertools.groupby(history, key=lambda pair: pair[1]):
            releases = [release for release, _ in group]
            rows.append((cell, verdict, _range(releases, last=history[-1][0]) if whole else ", ".join(releases)))
            cell = ""
    show_table(_columns("Operator", "Verdict" if key is None else f"Verdict under {key}", "torch"), rows)


def print_since(rows: Sequence[tuple[str, str | None, str | None, str]]) -> None:
    cells = [
        (name, since or "-", f"gone since {removed}" if removed else verdict) for name, since, removed, verdict in rows
    ]
    show_table(_columns("Operator", "Native since", "Now"), cells)


def print_difference(difference: Mapping[str, Any], old: KernelTable, new: KernelTable) -> None:
    columns = _columns("Operator", old.release, new.release)
    changed = {
        "Native now": difference["gained"],
        "No longer native": difference["lost"],
        "Judged otherwise": [change["operator"] for change in difference["changed"]],
    }
    tables = [
        Section(
            f"{title} ({len(names)})",
            [Table(columns, [(name, old.verdict(name), new.verdict(name)) for name in names])],
        )
        for title, names in changed.items()
        if names
    ]
    names = {
        "Removed operators": difference["removed"],
        **{f"Gained under {key}": of_key["gained"] for key, of_key in difference["by_key"].items()},
        **{f"Lost under {key}": of_key["lost"] for key, of_key in difference["by_key"].items()},
        "Facts that came": difference["markers"]["added"],
        "Facts that went": difference["markers"]["removed"],
    }
    counts = {
        **{title.lower(): len(names) for title, names in changed.items()},
        "new operators": len(difference["added"]),
        "removed": len(difference["removed"]),
    }
    counted = (f"{count} {what.removesuffix('s') if count == 1 else what}" for what, count in counts.items() if count)
    needs = f"macOS needed: {old.macos_minimum or '?'} → {new.macos_minimum or '?'}"
    show(
        Document(
            title="Difference",
            headline=f"torch {old.release} → {new.release}: {', '.join(counted) or 'no difference'}",
            alerts=[needs] if old.macos_minimum != new.macos_minimum else [],
            sections=[*tables, *_named(names)],
        ),
        PIPE_WIDTH,
    )


def _range(releases: Sequence[str], last: str) -> str:
    """Releases that follow each other: ``2.0.0 to 2.11.0``, or ``from 2.12.0`` when the last one is among them."""
    if len(releases) == 1:
        return releases[0]
    return f"from {releases[0]}" if releases[-1] == last else f"{releases[0]} to {releases[-1]}"


def _columns(first: str, *others: str) -> tuple[Column, ...]:
    return Column(first, "name"), *(Column(title, "verdict") for title in others)


def _named(groups: Mapping[str, Sequence[str]]) -> list[Section]:
    return [Section(f"{title} ({len(names)})", [Names(names)]) for title, names in groups.items() if names]


def show_table(columns: Iterable[Column], rows: Sequence[Row]) -> None:
    """A table is the whole answer."""
    show(Document(title="Kernels", sections=[Section("", [Table(tuple(columns), rows)])]), PIPE_WIDTH)


# -- of backends of other frameworks than torch

OPERATOR = Column("Operator", "name")


def print_registered_list(family: RegisteredFamily, document: Any) -> None:
    if isinstance(document, list):
        rows = [(row["release"], _counted(row["registrations"]), _besides(row)) for row in document]
        show_table([Column(title) for title in (family.label, "On every macOS", "Besides")], rows)
        return
    lines = [f"wheel {name}, sha256 {digest}" for name, digest in document.get("wheels", {}).items()]
    lines += [f"built for macOS {document['macos_minimum']} or newer"] if document.get("macos_minimum") else []
    sections = [_registrations("on every macOS", document["registrations"])]
    for group in document["conditional"]:
        condition = f"from macOS {group['macos']} on" if group["macos"] else f"where {', '.join(group['asks'])}"
        sections.append(_registrations(f"besides, {condition}", group["registrations"]))
    name = f"{family.name} {document['release']}"
    show(Document(name, headline=name, lines=lines, sections=sections), PIPE_WIDTH)


def print_registered_shown(rows: Sequence[dict[str, Any]]) -> None:
    """Each operator with its kernels, releases that follow each other with the same ones together."""
    cells: list[Row] = []
    for operator, of_one in itertools.groupby(rows, key=lambda row: row["operator"]):
        name = operator
        for kernels, group in itertools.groupby(
            of_one, key=lambda row: [types(registration) for registration in row["registrations"]]
        ):
            releases = [row["release"] for row in group]
            span = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
            for kernel in kernels or ["no kernel: the CPU"]:
                cells.append((name, span, kernel))
                name = span = ""
    show_table([OPERATOR, Column("Release", "verdict"), Column("Kernels")], cells)


def print_registered_since(rows: Sequence[dict[str, Any]]) -> None:
    cells = [(row["operator"], row["native_since"] or "not in the newest") for row in rows]
    show_table([OPERATOR, Column("Native since")], cells)


def print_registered_diff(difference: dict[str, Any]) -> None:
    name = f"{difference['backend']} {difference['from']} → {difference['to']}"
    counts = f"operators: {len(difference['gained'])} native now, {len(difference['lost'])} no longer"
    sections = [_registrations(title, entries) for title, entries in difference["registrations"].items() if entries]
    show(Document(name, headline=name, lines=[counts], sections=sections), PIPE_WIDTH)


def _counted(entries: Sequence[Entry]) -> str:
    operators = len({entry["operator"] for entry in entries})
    return f"{plural(len(entries), 'registration')} of {plural(operators, 'operator')}" if entries else "nothing"


def _besides(document: dict[str, Any]) -> str:
    groups = document["conditional"]
    return ", ".join(f"{len(g['registrations'])} from macOS {g['macos'] or '?'} on" for g in groups)


def _registrations(title: str, entries: Sequence[Entry]) -> Section:
    rows = [(one["operator"], types(one)) for one in sorted(entries, key=lambda entry: entry["operator"])]
    return Section(f"{title}: {_counted(entries)}", [Table((OPERATOR, Column("Kernel")), rows)])
