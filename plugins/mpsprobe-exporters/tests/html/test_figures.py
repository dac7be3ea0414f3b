"""Charts keep their parts inside and their labels apart; golden files have where everything is."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mpsprobe_exporters.document import Part
from mpsprobe_exporters.html.figures import Line, plot, stacked
from mpsprobe_exporters.html.scales import axis

X, Y = axis([0.0, 4.0], ""), axis([200.0], "")


def numbers(pattern: str, drawn: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, drawn)]


@given(st.lists(st.floats(0, 1), max_size=8))
def test_parts_follow_each_other_and_never_leave_the_bar(fractions: list[float]) -> None:
    drawn = stacked([Part(one, 1, "") for one in fractions])
    starts, widths = numbers(r' x="([\d.]+)%"', drawn), numbers(r' width="([\d.]+)%"', drawn)
    assert len(starts) == len(widths) == len(fractions)
    for start, width in zip(starts, widths, strict=True):
        assert start + width <= 100.02
    for (start, width), after in zip(zip(starts, widths, strict=True), starts[1:], strict=False):
        assert abs(start + width - after) < 0.02


def test_labels_of_curves_that_meet_are_pushed_apart_and_stay_inside() -> None:
    lines = [Line(name, 1, [(1.0, height)]) for name, height in (("a", 0.0), ("b", 0.001), ("c", 0.0))]
    heights = numbers(r'y="([\d.]+)%" dx="8" dy="4"', plot("t", X, Y, lines))
    assert len(heights) == 3 and max(heights) <= 100
    assert all(after - before >= 8.99 for before, after in pairwise(heights))
