"""Pages, read strictly as a browser does: what is in them, how parts are drawn, and the data of time lines."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

from example_reports import hostile_profile, of_cells, on_any_text, samples
from hypothesis import example, given
from hypothesis import strategies as st

from mpsprobe.schemas import Trace
from mpsprobe.schemas.report import Report
from mpsprobe_devkit.testing import sample_cell, sample_profile_report, sample_reports, sample_trace
from mpsprobe_devkit.testing.mutations import with_text
from mpsprobe_exporters.document import Part
from mpsprobe_exporters.html.charts import CATEGORIES, timeline
from mpsprobe_exporters.html.exporter import HtmlExporter
from mpsprobe_exporters.html.figures import Line, axis, percent, plot, stacked, thinned
from mpsprobe_exporters.html.markup import Markup, element, embedded, name
from mpsprobe_exporters.html.markup import text as shown

VOID = {"meta", "input", "br", "hr", "col", "wbr"}
# Elements and attributes that the exporter writes; none of them runs or fetches anything.
_TAGS = (
    "html head title style script body header main nav section div span p ul li dl dt dd h1 h2 h3 a b em small code "
    "label select option button table caption pre thead tbody tr th td details summary figure figcaption svg rect line "
    "circle text path"
)
_ATTRIBUTES = (
    "lang charset http-equiv content name class id hidden href title type value selected open tabindex role scope "
    "colspan aria-label aria-hidden data-view data-cell data-choice rel data-v data-filter data-tips data-level "
    "data-open x y x1 x2 y1 y2 cx cy r width height d dx dy viewbox preserveaspectratio overflow text-anchor"
)
TAGS, ATTRIBUTES = VOID | set(_TAGS.split()), set(_ATTRIBUTES.split())


class Page(HTMLParser):
    """What is in a page: elements by tag, what is shown, blocks of JSON, and what would run, dress or lead away."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.counts, self.data, self.attributes = Counter[str](), list[Any](), set[str]()
        self.texts, self.scripts, self.styles, self.links, self.values = (list[str]() for _ in range(5))
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.policy, self.comments, self.glued = "", 0, False
        self.feed(content)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        assert len(found) == len(attrs), f"an attribute of {tag} is there twice"
        self.counts[tag] += 1
        self.attributes |= set(found)
        self.values += [value for value in found.values() if value]
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""
        if tag == "a":
            self.links.append(found["href"] or "")
        self.glued = tag == "wbr"
        if tag not in VOID:
            self.open.append((tag, found))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1][0] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        tag, found = self.open[-1] if self.open else ("", {})
        if tag == "style":
            self.styles.append(data)
        elif tag == "script" and found.get("type") == "application/json":
            self.data.append(json.loads(data))
        elif tag == "script":
            self.scripts.append(data)
        elif self.glued:
            self.texts[-1] += data
            self.glued = False
        else:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments += 1

    def shown(self) -> str:
        """All text on one line."""
        return " ".join(" ".join(self.texts).split())

    def check(self) -> None:
        """Nothing but what the exporter writes is there, and its policy allows its own script and styles only."""
        assert set(self.counts) <= TAGS, set(self.counts) - TAGS
        assert self.attributes <= ATTRIBUTES, self.attributes - ATTRIBUTES
        assert not self.comments
        assert all(re.fullmatch("#[a-z]+|https?://[!-~]+", link) for link in self.links)
        assert len(self.scripts) == len(self.styles) == 1
        assert f"script-src '{_hash(self.scripts[0])}'" in self.policy
        assert f"style-src '{_hash(self.styles[0])}'" in self.policy
        assert self.policy.startswith("default-src 'none';")
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", self.scripts[0] + self.styles[0])
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert word not in self.scripts[0]


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


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


def drawn(found: Trace, most: int = 1000) -> tuple[str, dict[str, Any]]:
    made = timeline(sample_cell().model_copy(update={"trace": found}), most)
    assert isinstance(made, Markup)
    read = Page(made)
    return read.shown(), read.data[0]


def events(data: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    """Name, category, start and duration of each, as the script makes them."""
    found, at = [], 0
    for index, start, spent in zip(data["n"], data["s"], data["l"], strict=True):
        at += start
        title, category = data["names"][index]
        found.append((title, CATEGORIES[category], at, spent))
    return found


def test_one_step_with_all_of_its_events() -> None:
    whole = sample_trace(steps=3)
    said, data = drawn(whole)
    expected = [
        (whole.names[whole.name[i]], whole.categories[whole.category[i]], start - 1_000_000, whole.duration_ns[i])
        for i, start in enumerate(whole.start_ns)
        if 1_000_000 <= start < 2_000_000
    ]
    assert events(data) == expected and data["length"] == 1_000_000
    assert said.startswith(f"ProfilerStep#1 (the median one of 3), 1.00 ms, {len(expected)} events.")
    assert "the other steps are in the report" in said.lower()


def test_the_step_of_median_length_stands_for_the_others() -> None:
    whole = sample_trace(steps=3)
    steps = [index for index, one in enumerate(whole.category) if whole.categories[one] == "step"]
    durations = list(whole.duration_ns)
    for index, spent in zip(steps, (900_000, 500_000, 700_000), strict=True):
        durations[index] = spent
    said, data = drawn(whole.model_copy(update={"duration_ns": durations}))
    assert said.startswith("ProfilerStep#2 (the median one of 3), 700 µs")
    assert data["length"] == 700_000


def test_what_is_left_out_is_counted() -> None:
    whole = sample_trace(1)
    said, data = drawn(whole, 5)
    kept = sorted(whole.duration_ns, reverse=True)[:5]
    assert sorted(data["l"], reverse=True) == kept
    assert f"{len(whole.start_ns) - 5} shortest events of this step are not drawn" in said
    whole = sample_trace(2)
    categories = ["other" if one == "step" else one for one in whole.categories]
    said, data = drawn(whole.model_copy(update={"categories": categories, "truncated": 7}))
    assert said.startswith("The whole trace, 2.00 ms") and len(data["s"]) == len(whole.start_ns)
    assert "7 events had been left out when the trace was taken" in said
    assert timeline(sample_cell(), 10) == ""
    assert timeline(sample_cell().model_copy(update={"trace": Trace()}), 10) == ""


def test_counters_begin_with_the_value_before() -> None:
    whole = sample_trace(2)
    late = whole.counters[0].model_copy(update={"times_ns": [-5, 600_000, 5_000_000], "values": [3.0, 4.0, 5.0]})
    _, data = drawn(whole.model_copy(update={"counters": [late]}))
    assert data["counters"] == [{"name": "allocated_bytes", "t": [0, 600_000], "v": [3.0, 4.0]}]


KINDS = ("profile", "coverage", "coverage-matrix", "comparison")
REPORTS = {kind: report for kind, report in sample_reports().items() if kind in KINDS}


def page_of(report: Report) -> Page:
    content = HtmlExporter().render(report)
    assert all(one.isprintable() or one == "\n" for one in content)
    read = Page(content)
    read.check()
    return read


def test_samples_are_pages_that_fetch_and_run_nothing_else() -> None:
    for one in (*samples(), hostile_profile("x")):
        assert page_of(one).counts["section"] >= 2, one.kind


def test_views_without_anything_are_named_and_left_out() -> None:
    read = page_of(of_cells(sample_cell()))
    assert "#trace" not in read.links and "#operators" not in read.links
    assert "No operators, no modules" in read.shown() and "no trace" in read.shown()


@cache
def plain(kind: str) -> Page:
    return page_of(with_text(REPORTS[kind], "plain"))


@on_any_text
def test_no_string_adds_anything_to_a_page(text: str) -> None:
    """The same elements as with a plain word, but for those that fold or shorten by what the words are."""
    for kind, report in REPORTS.items():
        found, expected = page_of(with_text(report, text)), plain(kind)
        for tag in ("script", "style", "section", "nav", "canvas", "img", "option", "h2"):
            assert found.counts[tag] == expected.counts[tag], (kind, tag)
        links = [one for one in found.values if len(one) < 30 and one.lower().startswith(("javascript:", "data:"))]
        assert not links or text.lower().startswith(("javascript:", "data:"))


def test_damaged_parts_are_no_trouble() -> None:
    cell = sample_profile_report().cells[0]
    assert cell.memory is not None and cell.step is not None
    curve = cell.memory.curve.model_copy(update={"times_ns": [5, -3], "allocated_bytes": [1], "process_bytes": []})
    steps = [one.model_copy(update={"duration_ns": 0}) for one in cell.steps]
    zero = cell.model_copy(update={"memory": cell.memory.model_copy(update={"curve": curve}), "steps": steps})
    none = dict.fromkeys(("median_ns", "low_ns", "high_ns", "minimum_ns", "maximum_ns", "mean_ns"), 0.0)
    idle = zero.model_copy(update={"step": cell.step.model_copy(update=none), "phases": {}})
    modules = [one.model_copy(update={"module": "a." * 3000}) for one in idle.modules]
    deep = idle.model_copy(update={"modules": modules, "profiled_steps": 0})
    for cells in ([], [zero], [idle, idle], [deep]):
        page_of(of_cells(*cells))


def test_many_configurations() -> None:
    for count in (40, 140):
        read = page_of(of_cells(*(sample_cell("cuda", 1000 + index, 1 + index) for index in range(count))))
        assert read.counts["option"] == count
        assert f"{count} configurations" in read.shown()
        assert f"{count - 40} more are not shown" in read.shown() or count == 40


def test_phases_beyond_all_measure_that_cancel_out_are_no_chart() -> None:
    """A report may hold any numbers; the sum of these is above zero only until they are bounded."""
    cell = sample_cell()
    first, second, _ = cell.phases.values()
    huge = {"a": first.model_copy(update={"median_ns": -1e18}), "b": second.model_copy(update={"median_ns": 1.5e18})}
    HtmlExporter().render(of_cells(cell.model_copy(update={"phases": huge})))
