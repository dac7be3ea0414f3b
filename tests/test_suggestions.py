"""Nearest names, and names made safe to print."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.suggestions import SHOWN_CHARACTERS, nearest, printable, remedy

NAMES = ["bert-base", "bert-large", "distilbert", "gpt2", "gpt2-xl", "t5-small", "aten::linalg_qr.out"]


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("bert-bas", "bert-base"),
        ("BERT-BASE", "bert-base"),
        ("gtp2", "gpt2"),
        ("bert", "bert-base"),
        ("aten::linalg_qr", "aten::linalg_qr.out"),
    ],
)
def test_a_near_name_is_found(asked: str, first: str) -> None:
    assert nearest(asked, NAMES)[0] == first


def test_nothing_is_found_where_nothing_is_near() -> None:
    assert nearest("zzzzzz", NAMES) == []
    assert nearest("", NAMES) == []


def test_names_that_differ_only_in_case_give_one_answer() -> None:
    assert nearest("gpt3", ["GPT2", "gpt2"]) == ["GPT2"]


@given(st.text(), st.lists(st.text(max_size=30), max_size=20), st.integers(1, 5))
def test_answers_are_known_names_without_repeats(name: str, known: list[str], count: int) -> None:
    found = nearest(name, known, count)
    assert len(found) <= count
    assert len(set(found)) == len(found)
    assert set(found) <= set(known)


@given(st.sampled_from(NAMES))
def test_a_known_name_is_nearest_to_itself(name: str) -> None:
    assert nearest(name, NAMES)[0] == name


@given(st.text(max_size=400))
def test_printable_is_one_short_line(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) <= SHOWN_CHARACTERS


@given(st.text(alphabet=st.characters(categories=["L", "N", "P"]), max_size=SHOWN_CHARACTERS))
def test_printable_leaves_plain_text_alone(text: str) -> None:
    assert printable(text) == text


def test_a_remedy_is_found_for_a_cause_too() -> None:
    try:
        try:
            raise RuntimeError("operator torchvision::nms does not exist")
        except RuntimeError as error:
            raise ValueError("cannot import detr") from error
    except ValueError as error:
        assert "pip install --upgrade torch torchvision" in str(remedy(error))
    assert ".cuda()" in str(remedy(AssertionError("Torch not compiled with CUDA enabled")))
    error = RuntimeError("its own cause")
    error.__cause__ = error
    assert remedy(error) is None
    assert remedy(RuntimeError("out of paper")) is None


def test_printable_stops_escape_sequences_and_lone_surrogates() -> None:
    assert printable("a\x1b[31mb\nc\udcff") == "a\ufffd[31mb\ufffdc\ufffd"
