"""How the ``kernels`` commands look on a terminal, and in a pipe, where nothing is cut."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.columns import Columns
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from mpsprobe_coverage.commands.drawing import console, show
from mpsprobe_coverage.knowledge.kernels.table import FALLBACK, NATIVE, KernelTable
from mpsprobe_exporters.terminal.verdict_styles import STYLES

if TYPE_CHECKING:
    from mpsprobe_coverage.knowledge.kernels.difference import Change, Difference

PIPE_WIDTH = 10_000  # columns: nothing is wrapped where no terminal is
GAP = 3  # columns between those of a table


def print_table(torch_release: str, table: KernelTable, key: str | None) -> None:
    """One release: where the table comes from, then its operators."""
    name = f"{table.library} {table.release}" + ("" if table.library == "torch" else f", for torch {torch_release}")
    head = Text(name, style="bold")
    where = f"macOS {table.macos_minimum} or newer" if table.macos_minimum else table.backend.label
    head.append(f" on {where}", style="not bold")
    facts = [f"wheel {table.wheel}" if table.wheel else f"read from {table.source or 'the running dispatcher'}"]
    facts += [f"sha256 {table.sha256}"] if table.sha256 else []
    facts += table.notes
    facts += [] if table.whole else ["It does not hold every kernel: an operator without an entry is unknown."]
    if table.commit:
        facts.append(f"commit {table.commit}")
    groups = {
        NATIVE: table.native,
        "native from Python": table.python,
        FALLBACK: table.fallback,
        "only to raise": table.error,
        **{f"under {name}": operators for name, operators in _other_keys(table).items()},
    }
    counts = ", ".join(f"{len(operators)} {kind}" for kind, operators in groups.items() if operators)
    counts = counts or f"nothing for {table.backend.label}"
    parts: list[RenderableType] = [head, *(Text(fact, style="dim") for fact in facts), Text(counts), Text()]
    if key is not None:
        groups = {f"under {key}": table.keys.get(key, frozenset())}
    for title, operators in groups.items():
        if operators:
            parts += [Text(f"{title} ({len(operators)})", style="bold"), _names(sorted(operators)), Text()]
    show(parts[:-1], PIPE_WIDTH)


def print_releases(tables: Sequence[tuple[str, KernelTable]], key: str | None) -> None:
    """A line for each torch release: how many operators it registers in which way."""
    rows = [(torch_release, table, _by_kind(table, key)) for torch_release, table in tables]
    kinds = [kind for kind in rows[-1][2] if any(counts.get(kind) for _, _, counts in rows)]
    library = rows[-1][1].library
    with_macos = any(table.macos_minimum for _, table in tables)
    second = library if library != "torch" else "macOS" if with_macos else "whole"
    grid = _grid("torch", second, *kinds)
    grid.padding = (0, 1, 0, 0)
    for column in grid.columns:
        column.no_wrap = True
    for column in grid.columns[1:]:
        column.justify = "right"
    for torch_release, table, counts in rows:
        seconds = {library: table.release, "macOS": table.macos_minimum or "-", "whole": "yes" if table.whole else "no"}
        grid.add_row(torch_release, seconds[second], *(str(counts.get(kind) or "-") for kind in kinds))
    show([grid], PIPE_WIDTH)


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
    rows = []
    for operator, history in verdicts:
        cell = operator
        for verdict, group in itertools.groupby(history, key=lambda pair: pair[1]):
            releases = [release for release, _ in group]
            rows.append(
                (cell, _verdict(verdict), Text(_range(releases, last=history[-1][0]) if whole else ", ".join(releases)))
            )
            cell = ""
    show([by_operator(("Operator", "Verdict" if key is None else f"Verdict under {key}", "torch"), rows)], PIPE_WIDTH)


def print_since(rows: Sequence[tuple[str, str | None, str | None, str]]) -> None:
    """Each operator with the release since which it is native, or with what it is now."""
    cells = []
    for operator, since, removed, verdict in rows:
        now = Text(f"gone since {removed}", style="dim") if removed else _verdict(verdict)
        cells.append((operator, Text(since, style="green") if since else Text("-", style="dim"), now))
    show([by_operator(("Operator", "Native since", "Now"), cells)], PIPE_WIDTH)


def print_difference(difference: Difference) -> None:
    """What came, what went, what is judged otherwise."""
    old_macos, new_macos = difference.macos_minimum
    parts: list[RenderableType] = [
        Text.assemble((f"torch {difference.old} → {difference.new}", "bold"), f": {_summary(difference)}")
    ]
    if old_macos != new_macos:
        parts.append(Text(f"macOS needed: {old_macos or '?'} → {new_macos or '?'}", style="yellow"))
    parts.append(Text())
    sections: Iterable[tuple[str, Sequence[Change]]] = (
        ("Native now", difference.gained),
        ("No longer native", difference.lost),
        ("Judged otherwise", difference.changed),
    )
    for title, changes in sections:
        if changes:
            titles = (f"{title} ({len(changes)})", difference.old, difference.new)
            rows = [(change.operator, _verdict(change.old), _verdict(change.new)) for change in changes]
            parts += [by_operator(titles, rows), Text()]
    named = {
        "Removed operators": difference.removed,
        **{f"Gained under {key}": gained for key, (gained, _) in difference.keys.items()},
        **{f"Lost under {key}": lost for key, (_, lost) in difference.keys.items()},
        "Facts that came": difference.markers_added,
        "Facts that went": difference.markers_removed,
    }
    for title, names in named.items():
        if names:
            parts += [Text(f"{title} ({len(names)})", style="bold"), _names(names), Text()]
    show(parts[:-1], PIPE_WIDTH)


def _summary(difference: Difference) -> str:
    counts = {
        "native now": len(difference.gained),
        "no longer native": len(difference.lost),
        "judged otherwise": len(difference.changed),
        "new operators": len(difference.added),
        "removed": len(difference.removed),
    }
    counted = (f"{count} {what.removesuffix('s') if count == 1 else what}" for what, count in counts.items() if count)
    return ", ".join(counted) or "no difference"


def _range(releases: Sequence[str], last: str) -> str:
    """Releases that follow each other: ``2.0.0 to 2.11.0``, or ``from 2.12.0`` when the last one is among them."""
    if len(releases) == 1:
        return releases[0]
    return f"from {releases[0]}" if releases[-1] == last else f"{releases[0]} to {releases[-1]}"


def _verdict(verdict: str) -> Text:
    return Text(verdict, style=STYLES[verdict])


def by_operator(titles: Sequence[str], rows: Sequence[tuple[str, *tuple[Text, ...]]]) -> RenderableType:
    """A table of operators; on a terminal too narrow for it their names stand on lines of their own."""
    texts = [[Text(title, style="bold") for title in titles], *([Text(name), *cells] for name, *cells in rows)]
    widths = [max(cell.cell_len for cell in column) for column in zip(*texts, strict=True)]
    if sum(widths) + GAP * (len(widths) - 1) <= console(PIPE_WIDTH).width:
        grid = _grid(*titles)
        for row in rows:
            grid.add_row(*row)
        return grid
    lines = []
    for name, *cells in texts:
        for cell, width in zip(cells, widths[1:], strict=True):
            cell.pad_right(width - cell.cell_len)
        lines += [name] if name else []
        lines.append(Text(" " * GAP).join([Text(), *cells]))
    return Text("\n").join(lines)


def _grid(*titles: str) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for title in titles:
        grid.add_column(title, no_wrap=True)
    return grid


def _names(names: Iterable[str]) -> RenderableType:
    texts = [Text(name) for name in names]
    in_columns = console(PIPE_WIDTH).is_terminal
    return Columns(texts, padding=(0, 2), column_first=True) if in_columns else Text("\n").join(texts)
