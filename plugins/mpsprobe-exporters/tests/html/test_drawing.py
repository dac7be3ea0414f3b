"""Drawing a page: text stays text, axes hold their values, charts keep their parts inside and labels apart."""

from __future__ import annotations

import json
import re
from itertools import pairwise

from hostile import on_any_text
from hypothesis import example, given
from hypothesis import strategies as st
from page_reader import Page

from mpsprobe_exporters.document import Part
from mpsprobe_exporters.html.figures import Line, plot, stacked
from mpsprobe_exporters.html.markup import Markup, element, embedded, name
from mpsprobe_exporters.html.markup import text as shown
from mpsprobe_exporters.html.scales import axis, percent, thinned


@on_any_text
def test_any_text_stays_text(text: str) -> None:
    read = Page(element("p", text, element("b", "end"), title=text))
    assert read.counts == {"p": 1, "b": 1} and read.texts[-1] == "end"
    if text.isprintable() and len(text) <= 2000:
        assert "".join(read.texts) == text + "end" and read.values == [text] * bool(text)
    assert shown(text).isprintable()
    assert Page(name(text)).counts.keys() - {"wbr"} == {"code"}


@on_any_text
def test_data_ends_no_script_and_is_read_back(text: str) -> None:
    written = embedded({text: [text, 1, None]}, class_="x")
    assert written.isascii() and written.isprintable()
    body = written.removeprefix('<script type="application/json" class="x">').removesuffix("</script>")
    assert not set("<>&") & set(body)
    assert json.loads(body) == {text: [text, 1, None]}


def test_elements_and_names() -> None:
    made = element("td", "1", class_="n", data_v=3, hidden=False, open=True, title=None, viewBox="0 0 1 1")
    assert made == '<td class="n" data-v="3" open viewBox="0 0 1 1">1</td>'
    assert element("br") == "<br>"
    inner = element("i", "a & b")
    assert element("p", ["x", [inner, None]], inner) == "<p>x<i>a &amp; b</i><i>a &amp; b</i></p>"
    assert isinstance(inner, Markup)
    long = "module." * 40
    assert f'title="{long}"' in name(long) and len("".join(Page(name(long, 60)).texts)) == 60
    assert name("") == "<code>(none)</code>"


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


def test_ticks_are_round_and_thinned() -> None:
    assert [said for _, said in axis([181e6], "ns").ticks] == ["0", "50 ms", "100 ms", "150 ms", "200 ms"]
    assert [said for _, said in axis([1.7e9], "bytes").ticks] == ["0", "0.5 GB", "1 GB", "1.5 GB", "2 GB"]
    assert [said for _, said in axis([30.0], "", 3).ticks] == ["0", "10", "20", "30"]
    assert [[said for _, said in axis([most], "", whole=True).ticks] for most in (1.0, 3.0, 19.0)] == [
        ["0", "1"],
        ["0", "1", "2", "3"],
        ["0", "5", "10", "15", "20"],
    ]
    made = axis([170e6, 260e6], "ns", zero=False)
    assert (made.low, made.high) == (170e6, 260e6)
    assert [said for _, said in made.ticks] == ["180 ms", "200 ms", "220 ms", "240 ms", "260 ms"]
    for count, most in ((0, 5), (3, 5), (5, 5), (1000, 7)):
        found = thinned(count, most)
        assert len(found) == min(count, most) and found == sorted(set(found))
        assert not count or (found[0], found[-1]) == (0, count - 1)
    assert [percent(one) for one in (0.0, 0.125, 1.0, 1 / 3)] == ["0%", "12.5%", "100%", "33.33%"]


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
