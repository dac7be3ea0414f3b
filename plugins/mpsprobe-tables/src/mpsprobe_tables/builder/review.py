"""What a person has to look at when a release has come in: what no program can decide."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mpsprobe.suggestions import printable
from mpsprobe_tables.builder.rebuild import Rebuilt

LONGEST_LINE = 160


def review(before: Rebuilt, new: Rebuilt) -> Iterator[str]:
    """Lines about ``new``, compared with the release before it."""
    old, table = before.table, new.table
    yield f"{table.library} {table.release}, compared with {old.release}"
    yield (
        f"  {len(table.native)} operators have a kernel: {len(table.native - old.native)} new, "
        f"{len(old.native - table.native)} no more"
    )
    yield from _listed("lost their kernel", (old.native - table.native) & table.operators)
    yield from _listed("new dispatch keys", table.keys.keys() - old.keys.keys())
    yield from _listed("new markers", table.markers - old.markers)
    yield from _listed("markers that are gone", old.markers - table.markers)
    yield from _listed("only in the binary", _names(table.only_in_binary.values()))
    yield from _listed("only in native_functions.yaml", _names(table.only_declared.values()))
    yield from (f"  {why}: what is stored is kept" for why in new.kept)
    if table.macos_minimum != old.macos_minimum:
        yield f"  oldest macOS: {old.macos_minimum} → {table.macos_minimum}"
    if table.requires_torch:
        yield f"  made for torch {table.requires_torch}"
    yield from undecided(new)


def undecided(one: Rebuilt) -> Iterator[str]:
    """Lines about messages of the library that nobody has decided on."""
    messages = () if one.messages is None else tuple(one.messages.undecided())
    if messages:
        yield "  raised by MPS code, without a marker and without a decision (decisions.toml: is one a refusal?):"
        yield from (f"    {printable(text)[:LONGEST_LINE]}" for text in messages)


def _names(groups: Collection[tuple[str, ...]]) -> set[str]:
    return {name for group in groups for name in group}


def _listed(what: str, names: Collection[str]) -> Iterator[str]:
    if names:
        yield f"  {what}: {', '.join(sorted(names))}"
