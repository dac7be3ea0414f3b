"""What changed between two releases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe_coverage.kernels.difference import Change, compare
from mpsprobe_coverage.kernels.mps import MPS_FAMILY, load_table
from mpsprobe_coverage.kernels.releases import torch_releases
from mpsprobe_coverage.kernels.table import KernelTable


def _table(release: str, **labels: str) -> KernelTable:
    found = {f"aten::{name}": frozenset(joined.split()) for name, joined in labels.items()}
    return KernelTable(MPS_FAMILY, release, found, macos_minimum="13.0")


def test_every_way_to_change() -> None:
    old = _table(
        "2.0.0",
        same="defined MPS",
        gains="defined",
        loses="defined MPS",
        otherwise="defined MPS MPS:fallback",
        goes="defined MPS",
        sparse="defined",
    )
    new = _table(
        "2.1.0",
        same="defined MPS",
        gains="defined MPS",
        loses="defined",
        otherwise="defined CompositeImplicitAutograd",
        comes="defined MPS",
        sparse="defined SparseMPS",
    )
    difference = compare(old, new)
    assert difference.gained == (
        Change("aten::comes", "unknown", "native"),
        Change("aten::gains", "missing", "native"),
    )
    assert difference.lost == (Change("aten::loses", "native", "missing"),)
    assert difference.changed == (Change("aten::otherwise", "fallback", "composite"),)
    assert (difference.added, difference.removed) == (("aten::comes",), ("aten::goes",))
    assert difference.keys == {"SparseMPS": (("aten::sparse",), ())}
    assert difference.as_dict()["by_key"] == {"SparseMPS": {"gained": ["aten::sparse"], "lost": []}}


@pytest.mark.parametrize("release", [torch_releases()[0], torch_releases()[-1]])
def test_a_release_does_not_differ_from_itself(release: str) -> None:
    difference = compare(load_table(release), load_table(release)).as_dict()
    assert not any(difference[what] for what in ("gained", "lost", "changed", "added", "removed", "by_key"))


@given(st.sampled_from(torch_releases()), st.sampled_from(torch_releases()))
def test_the_difference_leads_from_one_to_the_other(first: str, second: str) -> None:
    old, new = load_table(first), load_table(second)
    difference = compare(old, new)
    assert (old.operators | set(difference.added)) - set(difference.removed) == new.operators
    gained = {change.operator for change in difference.gained}
    lost = {change.operator for change in difference.lost}
    serving = {o for o in old.operators if old.verdict(o) == "native"}
    assert (serving | gained) - lost - set(difference.removed) == {
        o for o in new.operators if new.verdict(o) == "native"
    }
