"""``mpsprobe kernels list | show | since | diff`` for a backend of another framework than torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from mpsprobe.errors import UsageError
from mpsprobe_coverage.commands import kernels_output
from mpsprobe_coverage.commands.drawing import show as show_parts
from mpsprobe_coverage.knowledge.kernels.registered import ALL, Entry, types

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mpsprobe_coverage.knowledge.kernels.registered import RegisteredFamily


def refuse(family: RegisteredFamily, **given: object) -> None:
    """Options that mean something for a backend of torch alone.

    Raises:
        UsageError: one was used.
    """
    for name, value in given.items():
        if value:
            raise UsageError(
                f"{family.name} is no backend of torch: --{name} means nothing there", f"Leave --{name} out."
            )


def list_kernels(family: RegisteredFamily, release: str) -> Any:
    """The document of one release, or of each."""
    documents = [{"backend": family.name, **family.table(one)} for one in family.resolve(release)]
    return documents if release == ALL or len(documents) > 1 else documents[0]


def show_kernels(family: RegisteredFamily, operators: Iterable[str], release: str) -> list[dict[str, Any]]:
    """What each release registers of some operators."""
    return [
        {"operator": name, "backend": family.name, "release": one, "registrations": family.of(name, one)}
        for name in family.named(operators)
        for one in family.resolve(release)
    ]


def since_kernels(family: RegisteredFamily, operators: Iterable[str]) -> list[dict[str, Any]]:
    """Since which release some operators have a kernel."""
    return [
        {"operator": name, "backend": family.name, "native_since": family.since(name), "release": family.releases[-1]}
        for name in family.named(operators)
    ]


def diff_kernels(family: RegisteredFamily, old: str, new: str) -> dict[str, Any]:
    """What came and what went from one release to another."""
    (first,), (second,) = ([family.resolve(text)[-1]] for text in (old, new))
    added, removed = family.difference(first, second)
    before, after = ({one["operator"] for one in family.all_of(release)} for release in (first, second))
    return {
        "backend": family.name,
        "from": first,
        "to": second,
        "gained": sorted(after - before),
        "lost": sorted(before - after),
        "registrations": {"added": added, "removed": removed},
    }


def print_list(family: RegisteredFamily, document: Any) -> None:
    """One release with its kernels, or a line for each release."""
    if isinstance(document, list):
        rows = [(one["release"], Text(_counted(one["registrations"])), Text(_besides(one))) for one in document]
        show_parts(
            [kernels_output.by_operator((family.label, "On every macOS", "Besides"), rows)], kernels_output.PIPE_WIDTH
        )
        return
    head = Text(f"{family.name} {document['release']}", style="bold")
    facts = [f"wheel {name}, sha256 {digest}" for name, digest in document.get("wheels", {}).items()]
    facts += [f"built for macOS {document['macos_minimum']} or newer"] if document.get("macos_minimum") else []
    parts: list[RenderableType] = [head, *(Text(fact, style="dim") for fact in facts)]
    parts += [Text(_counted(document["registrations"])), _grid(document["registrations"])]
    for group in document["conditional"]:
        condition = f"from macOS {group['macos']} on" if group["macos"] else f"where {', '.join(group['asks'])}"
        parts += [Text(), Text(f"besides, {condition}: {_counted(group['registrations'])}", style="bold")]
        parts.append(_grid(group["registrations"]))
    show_parts(parts, kernels_output.PIPE_WIDTH)


def print_shown(rows: Sequence[dict[str, Any]]) -> None:
    """Each operator with its kernels, releases that follow each other with the same ones together."""
    cells = []
    for operator, of_one in itertools.groupby(rows, key=lambda row: row["operator"]):
        name = operator
        for kernels, group in itertools.groupby(of_one, key=lambda row: [types(one) for one in row["registrations"]]):
            releases = [row["release"] for row in group]
            span = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
            cells.append((name, Text(span), Text("; ".join(kernels) or "no kernel: the CPU")))
            name = ""
    show_parts([kernels_output.by_operator(("Operator", "Release", "Kernels"), cells)], kernels_output.PIPE_WIDTH)


def print_since(rows: Sequence[dict[str, Any]]) -> None:
    """Each operator with the release since which it has a kernel."""
    cells = [(row["operator"], Text(row["native_since"] or "not in the newest")) for row in rows]
    show_parts([kernels_output.by_operator(("Operator", "Native since"), cells)], kernels_output.PIPE_WIDTH)


def print_diff(difference: dict[str, Any]) -> None:
    """What came and went."""
    parts: list[RenderableType] = [
        Text(f"{difference['backend']} {difference['from']} → {difference['to']}", style="bold"),
        Text(f"operators: {len(difference['gained'])} native now, {len(difference['lost'])} no longer"),
    ]
    for title, entries in difference["registrations"].items():
        if entries:
            parts += [Text(), Text(f"{title}: {_counted(entries)}", style="bold"), _grid(entries)]
    show_parts(parts, kernels_output.PIPE_WIDTH)


def _counted(entries: Sequence[Entry]) -> str:
    operators = len({one["operator"] for one in entries})
    counts = ((len(entries), "registration"), (operators, "operator"))
    return " of ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts) if entries else "nothing"


def _besides(document: dict[str, Any]) -> str:
    groups = document["conditional"]
    return ", ".join(f"{len(g['registrations'])} from macOS {g['macos'] or '?'} on" for g in groups)


def _grid(entries: Sequence[Entry]) -> RenderableType:
    ordered = sorted(entries, key=lambda one: one["operator"])
    rows = [
        (operator, Text("; ".join(types(one) for one in group)))
        for operator, group in itertools.groupby(ordered, key=lambda one: one["operator"])
    ]
    return kernels_output.by_operator(("Operator", "Kernels"), rows)
