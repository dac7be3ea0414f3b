"""Folding can be undone: the patterns stand for exactly the names that went in."""

from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from mpsprobe_exporters.module_names import ROOT, fold_names


def unfold(pattern: str) -> set[str]:
    """The names that a pattern stands for, by the grammar that the docstring of ``fold_names`` gives."""
    choices = []
    for part in re.split(r"(\{[0-9,.]+\})", pattern):
        if not part.startswith("{"):
            choices.append([part])
            continue
        numbers: list[str] = []
        for piece in part[1:-1].split(","):
            first, _, last = piece.partition("..")
            numbers += map(str, range(int(first), int(last or first) + 1))
        choices.append(numbers)
    return {"".join(chosen) for chosen in itertools.product(*choices)}


def test_examples() -> None:
    for names, folded in (
        ([], []),
        ([""], [ROOT]),
        (["pooler"], ["pooler"]),
        ([f"encoder.layer.{i}.output" for i in range(12)], ["encoder.layer.{0..11}.output"]),
        (["layer.0", "layer.1"], ["layer.{0,1}"]),
        (["layer.7", "layer.0", "layer.2", "layer.5", "layer.6"], ["layer.{0,2,5..7}"]),
        ([f"layer{i}.{j}.conv1" for i in (1, 2, 3) for j in (0, 1)], ["layer{1..3}.{0,1}.conv1"]),
        (["a.0.b", "c", "a.1.b", "c"], ["a.{0,1}.b", "c"]),
        (["layer.00", "layer.01"], ["layer.00", "layer.01"]),
        (["{0,1}.0", "{0,1}.1"], ["{0,1}.0", "{0,1}.1"]),
        (["a.0.0", "a.0.1", "a.1.1"], ["a.0.{0,1}", "a.1.1"]),
        (["h.٣", "h.٤"], ["h.٣", "h.٤"]),
    ):
        assert fold_names(names) == folded


part = st.sampled_from(["layer", "conv1d", "0", "1", "2", "3", "10", "11", "007", "a_1"])
names = st.lists(st.lists(part, min_size=1, max_size=5).map(".".join), max_size=30)


@given(names)
def test_patterns_stand_for_exactly_the_names(given_names: list[str]) -> None:
    patterns = fold_names(given_names)
    unfolded = [name for pattern in patterns for name in unfold(pattern)]
    assert sorted(unfolded) == sorted(set(given_names))


@given(st.lists(st.text(alphabet="a.0123{}", min_size=1, max_size=12), max_size=12))
def test_nothing_is_lost_or_doubled_in_strange_names(given_names: list[str]) -> None:
    braced = {name for name in given_names if "{" in name or "}" in name}
    patterns = fold_names(given_names)
    assert braced <= set(patterns)
    unfolded = [name for pattern in patterns if pattern not in braced for name in unfold(pattern)]
    assert sorted(unfolded) == sorted(set(given_names) - braced)


def test_many_numbers_in_one_name_take_no_time() -> None:
    long_names = [".".join(["1"] * 2500) + f".{index}" for index in range(200)]
    assert fold_names(long_names) == long_names
