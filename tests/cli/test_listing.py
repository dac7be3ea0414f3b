"""Plain tables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.cli.listing import aligned

WORD = st.text(alphabet=st.characters(categories=["L", "N"]), min_size=1, max_size=12)


def test_columns_are_aligned_and_the_last_is_not_padded() -> None:
    assert aligned([("a", "bb", "c"), ("aaa", "b", "")]) == "a    bb  c\naaa  b"
    assert aligned([]) == ""


@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(WORD, min_size=width, max_size=width), min_size=1)))
def test_every_cell_is_there(rows: list[list[str]]) -> None:
    assert [line.split() for line in aligned(rows).split("\n")] == rows


def test_the_last_column_is_wrapped_under_itself() -> None:
    rows = [("NAME", "WHY"), ("one", "word " * 12)]
    text = aligned(rows, width=40)
    assert all(len(line) <= 40 for line in text.split("\n"))
    assert text.split("\n")[2].startswith("      word")
    assert " ".join(text.split()) == " ".join(aligned(rows).split())
    assert aligned(rows, width=20) == aligned(rows)
