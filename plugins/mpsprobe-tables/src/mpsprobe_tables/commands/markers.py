"""``mpsprobe kernels markers``: what a new rule about a message says about every release, without reading a wheel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mpsprobe.output import check_writable, write_atomically, write_stdout

if TYPE_CHECKING:
    from mpsprobe_coverage.knowledge.kernels.table import KernelTable

DIFFERENT = 1


@click.command(short_help="Find the markers of every release in its stored messages.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 where a table would get other markers.")
def markers(check: bool) -> None:
    """Look for the strings of markers.toml in the messages that the MPS code of each release raises with.

    Run it in a checkout after a marker was added, spelt in a further way, or removed: it writes the tables of torch
    anew. A marker that the wheel showed elsewhere, as in the source of a shader, keeps its releases; one that no
    message has at all is named, and needs the wheels (mpsprobe kernels build VERSION).

    \b
    mpsprobe kernels markers
    mpsprobe kernels markers --check
    """
    from mpsprobe_coverage.knowledge.kernels.markers import MARKER_STRINGS
    from mpsprobe_coverage.knowledge.kernels.mps import load_table
    from mpsprobe_coverage.knowledge.kernels.releases import SUFFIX, data_folder, torch_releases
    from mpsprobe_tables.encoding import encode_table

    folder, lines, base, seen = Path(str(data_folder())), [], None, set[str]()
    for release in torch_releases():
        table = load_table(release)
        made = with_markers(table)
        seen |= made.markers
        lines += [f"{release}: {change}" for change in _changes(table, made)]
        if made.markers != table.markers and not check:
            path = folder / f"torch-{release}{SUFFIX}"
            check_writable(path)
            write_atomically(path, encode_table(made, base))
        base = table
    unseen = [
        f"no message of any release shows '{marker}': read the wheels"
        for marker in sorted(MARKER_STRINGS.keys() - seen)
    ]
    write_stdout("\n".join([*lines, *unseen]) or "every table has the markers that its messages show")
    if check and lines:
        click.get_current_context().exit(DIFFERENT)


def with_markers(table: KernelTable) -> KernelTable:
    """``table`` with the markers of today: those that its messages show, and those that its wheel showed elsewhere."""
    from mpsprobe_coverage.knowledge.kernels.markers import MARKER_STRINGS
    from mpsprobe_tables.builder.assemble import OPTIMIZER_MARKERS
    from mpsprobe_tables.messages import load_messages

    kept = table.markers & {*MARKER_STRINGS, *OPTIMIZER_MARKERS}
    return replace(table, markers=kept | load_messages(table.release).markers())


def _changes(old: KernelTable, new: KernelTable) -> Iterator[str]:
    yield from (f"marker {marker}: new" for marker in sorted(new.markers - old.markers))
    yield from (f"marker {marker}: gone" for marker in sorted(old.markers - new.markers))
