"""Charts put things where their values are."""

from __future__ import annotations

import json
import re
from html import unescape
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mpsprobe_exporters.document import Part
from mpsprobe_exporters.html.figures import FINE, Line, Tip, histogram, interval, plot, stacked
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


def test_dots_and_lines_are_where_their_values_are() -> None:
    dots = plot("t", X, Y, [Line("", 1, [(0.0, 0.0), (0.5, 1.0)], "dots")])
    assert f'd="M0 {FINE}h0M{FINE // 2} 0h0"' in dots
    line = plot("t", X, Y, [Line("one", 2, [(0.0, 0.0), (1.0, 0.25)])])
    assert f'd="M0 {FINE}L{FINE} {FINE * 3 // 4}"' in line and ">one</text>" in line


def test_labels_of_curves_that_meet_are_pushed_apart_and_stay_inside() -> None:
    lines = [Line(name, 1, [(1.0, height)]) for name, height in (("a", 0.0), ("b", 0.001), ("c", 0.0))]
    heights = numbers(r'y="([\d.]+)%" dx="8" dy="4"', plot("t", X, Y, lines))
    assert len(heights) == 3 and max(heights) <= 100
    assert all(after - before >= 8.99 for before, after in pairwise(heights))


def test_the_median_has_its_line_and_its_interval() -> None:
    drawn = plot("t", X, Y, [], levels=[(0.5, "median 100")], band=(0.4, 0.6))
    assert 'y1="50%" y2="50%" class="level"' in drawn and "median 100" in drawn
    assert 'y="40%" height="20%"' in drawn


def test_tips_are_read_back() -> None:
    drawn = plot("t", X, Y, [], tips=[Tip(0.25, 'a "quoted" <tip>')])
    [found] = re.findall(r'data-tips="([^"]*)"', drawn)
    assert json.loads(unescape(found)) == [[0.25, 'a "quoted" <tip>']]


def test_a_histogram_begins_at_zero() -> None:
    drawn = histogram("t", X, [2, 0, 4], axis([4.0], "", 2))
    heights = numbers(r'height="([\d.]+)%"', drawn)
    assert heights == [50.0, 100.0]


def test_an_interval_lies_around_its_value() -> None:
    drawn = interval(0.2, 0.6, 0.1, Part(0.5, 4))
    assert 'x="20%" width="40%"' in drawn and 'cx="50%"' in drawn and 'x1="10%"' in drawn
    assert "width=" in interval(-5.0, 9.0, 0.5, Part(0.5, 1))
