"""The time line's data is the trace's: which step, which events, and the words about those that are left out."""

from __future__ import annotations

from typing import Any

from page_reader import Page

from mpsprobe.schemas import Trace
from mpsprobe_devkit.testing import sample_cell, sample_trace
from mpsprobe_exporters.html.markup import Markup
from mpsprobe_exporters.html.views.trace import CATEGORIES, trace


def drawn(found: Trace, most: int = 1000) -> tuple[str, dict[str, Any]]:
    made = trace(sample_cell().model_copy(update={"trace": found}), most)
    assert isinstance(made, Markup)
    read = Page(made)
    return read.shown(), read.data[0]


def events(data: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    """Name, category, start and duration of each, as the script makes them."""
    found, at = [], 0
    for name, start, spent in zip(data["n"], data["s"], data["l"], strict=True):
        at += start
        title, category = data["names"][name]
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
    assert trace(sample_cell(), 10) is None
    assert trace(sample_cell().model_copy(update={"trace": Trace()}), 10) is None


def test_counters_begin_with_the_value_before() -> None:
    whole = sample_trace(2)
    late = whole.counters[0].model_copy(update={"times_ns": [-5, 600_000, 5_000_000], "values": [3.0, 4.0, 5.0]})
    _, data = drawn(whole.model_copy(update={"counters": [late]}))
    assert data["counters"] == [{"name": "allocated_bytes", "t": [0, 600_000], "v": [3.0, 4.0]}]
