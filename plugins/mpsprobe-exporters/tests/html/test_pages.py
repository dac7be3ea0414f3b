"""Whole pages, read strictly: what is in them, that it is the report's, and that no report breaks one."""

from __future__ import annotations

from functools import cache
from typing import Any

from example_reports import samples
from hostile import hostile_profile, on_any_text
from page_reader import Page

from mpsprobe.schemas import ProfileReport
from mpsprobe.schemas.report import Report
from mpsprobe_devkit.testing import sample_cell, sample_profile_report, sample_reports
from mpsprobe_devkit.testing.mutations import with_text
from mpsprobe_exporters.html.exporter import HtmlExporter

KINDS = ("profile", "coverage", "coverage-matrix", "comparison")
REPORTS = {kind: report for kind, report in sample_reports().items() if kind in KINDS}


def page_of(report: Report) -> Page:
    content = HtmlExporter().render(report)
    assert all(one.isprintable() or one == "\n" for one in content)
    read = Page(content)
    read.check()
    return read


def profile(**more: Any) -> ProfileReport:
    return sample_profile_report().model_copy(update=more)


def test_samples_are_pages_that_fetch_and_run_nothing_else() -> None:
    for one in (*samples(), hostile_profile("x")):
        assert page_of(one).counts["section"] >= 2, one.kind


def test_views_without_anything_are_named_and_left_out() -> None:
    read = page_of(profile(cells=[sample_cell()]))
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
            assert found.counts.get(tag, 0) == expected.counts.get(tag, 0), (kind, tag)
        links = [one for one in found.values if len(one) < 30 and one.lower().startswith(("javascript:", "data:"))]
        assert not links or text.lower().startswith(("javascript:", "data:"))


def test_damaged_parts_are_no_trouble() -> None:
    report = profile()
    memory = report.cells[0].memory
    assert memory is not None
    curve = memory.curve.model_copy(update={"times_ns": [5, -3], "allocated_bytes": [1], "process_bytes": []})
    zero = report.cells[0].model_copy(
        update={
            "memory": memory.model_copy(update={"curve": curve}),
            "steps": [one.model_copy(update={"duration_ns": 0}) for one in report.cells[0].steps],
        }
    )
    step = zero.step
    assert step is not None
    none = dict.fromkeys(("median_ns", "low_ns", "high_ns", "minimum_ns", "maximum_ns", "mean_ns"), 0.0)
    idle = zero.model_copy(update={"step": step.model_copy(update=none), "phases": {}})
    deep = idle.model_copy(
        update={
            "modules": [one.model_copy(update={"module": "a." * 3000}) for one in idle.modules],
            "profiled_steps": 0,
        }
    )
    for cells in ([], [zero], [idle, idle], [deep]):
        page_of(report.model_copy(update={"cells": cells}))


def test_many_configurations() -> None:
    for count in (40, 140):
        read = page_of(profile(cells=[sample_cell("cuda", 1000 + index, 1 + index) for index in range(count)]))
        assert read.counts["option"] == count
        assert f"{count} configurations" in read.shown()
        assert f"{count - 40} more are not shown" in read.shown() or count == 40


def test_phases_beyond_all_measure_that_cancel_out_are_no_chart() -> None:
    """A report may hold any numbers; the sum of these is above zero only until they are bounded."""
    cell = sample_cell()
    first, second, _ = cell.phases.values()
    huge = {
        "a": first.model_copy(update={"median_ns": -1e18}),
        "b": second.model_copy(update={"median_ns": 1.5e18}),
    }
    HtmlExporter().render(profile(cells=[cell.model_copy(update={"phases": huge})]))
