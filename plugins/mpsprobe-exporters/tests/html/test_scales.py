"""Axes hold their values, begin at zero where they should, and have round ticks."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from mpsprobe_exporters.html.scales import axis, percent, thinned


@example([-5.0, -3.0], True, "ns")
@given(st.lists(st.floats(-1e300, 1e300), max_size=20), st.booleans(), st.sampled_from(["ns", "bytes", ""]))
def test_every_value_has_a_place(values: list[float], zero: bool, unit: str) -> None:
    made = axis(values, unit, zero=zero)
    assert made.low < made.high
    assert all(0 <= made.place(value) <= 1 for value in values)
    assert len(made.ticks) <= 13
    if zero:
        assert made.low <= 0 <= made.high
    for before, after in zip(made.ticks, made.ticks[1:], strict=False):
        assert before[0] < after[0]


def test_ticks_are_written_in_one_unit() -> None:
    assert [said for _, said in axis([181e6], "ns").ticks] == ["0", "50 ms", "100 ms", "150 ms", "200 ms"]
    assert [said for _, said in axis([1.7e9], "bytes").ticks] == ["0", "0.5 GB", "1 GB", "1.5 GB", "2 GB"]
    assert [said for _, said in axis([30.0], "", 3).ticks] == ["0", "10", "20", "30"]
    assert [[said for _, said in axis([most], "", whole=True).ticks] for most in (1.0, 3.0, 19.0)] == [
        ["0", "1"],
        ["0", "1", "2", "3"],
        ["0", "5", "10", "15", "20"],
    ]


def test_without_zero_the_ends_are_the_values() -> None:
    made = axis([170e6, 260e6], "ns", zero=False)
    assert (made.low, made.high) == (170e6, 260e6)
    assert [said for _, said in made.ticks] == ["180 ms", "200 ms", "220 ms", "240 ms", "260 ms"]


def test_thinned_keeps_both_ends() -> None:
    for count, most in ((0, 5), (3, 5), (5, 5), (1000, 7)):
        found = thinned(count, most)
        assert len(found) == min(count, most) and found == sorted(set(found))
        assert not count or (found[0], found[-1]) == (0, count - 1)


def test_percent() -> None:
    assert [percent(one) for one in (0.0, 0.125, 1.0, 1 / 3)] == ["0%", "12.5%", "100%", "33.33%"]
