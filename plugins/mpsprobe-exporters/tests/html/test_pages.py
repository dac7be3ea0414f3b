"""Whole pages, read strictly: what is in them, that it is the report's, and that no report breaks one."""

from __future__ import annotations

from typing import Any

import pytest
from example_reports import samples
from hostile import HOSTILE, texts
from hypothesis import given, settings
from page_reader import Page

from mpsprobe.schemas import ProfileReport
from mpsprobe.schemas.report import Report
from mpsprobe_devkit.testing import sample_cell, sample_profile_report, sample_reports
from mpsprobe_devkit.testing.mutations import with_text
from mpsprobe_exporters.html.exporter import HtmlExporter

READ = ("profile", "coverage", "coverage-matrix", "comparison")


def page_of(report: Report) -> Page:
    content = HtmlExporter().render(report)
    assert all(one.isprintable() or one == "\n" for one in content)
    read = Page(content)
    read.check()
    return read


def profile(**more: Any) -> ProfileReport:
    return sample_profile_report().model_copy(update=more)


def test_samples_are_pages_that_fetch_and_run_nothing_else() -> None:
    for one in samples():
        assert page_of(one).counts["section"] >= 2, one.kind


def test_a_profile_shows_what_the_report_has() -> None:
    report = profile()
    read, cell = page_of(report), report.cells[0]
    shown = read.shown()
    for expected in ("1.00 ms", "2,000 samples/s", "6.40 x", "9.00 ms", "aten::linalg_qr.out"):
        assert expected in shown
    for one in (*cell.operators, *cell.fallbacks):
        assert one.operator in shown
    assert cell.fallbacks[0].native_since and cell.fallbacks[0].native_since in shown
    assert "gemm_float" in shown and "MPS to CPU" in shown and "energy: gpu per sample" in shown
    assert "OutOfMemoryError: no memory left on the device" in shown
    assert "thermal was not measured: the system does not tell" in shown
    assert read.counts["option"] == len(report.cells)
    views = ("overview", "steps", "operators", "kernels", "modules", "memory", "fallbacks", "trace", "probes")
    assert {f"#{view}" for view in views} <= set(read.links)


def test_views_without_anything_are_named_and_left_out() -> None:
    read = page_of(profile(cells=[sample_cell()]))
    assert "#trace" not in read.links and "#operators" not in read.links
    assert "No operators, no modules" in read.shown() and "no trace" in read.shown()


@pytest.mark.parametrize("kind", READ)
def test_no_known_string_adds_anything_to_a_page(kind: str) -> None:
    for word in HOSTILE:
        check_structure(sample_reports()[kind], word)


@settings(max_examples=10, deadline=None)
@given(texts)
def test_no_string_adds_anything_to_a_page(word: str) -> None:
    check_structure(sample_profile_report(), word)


def check_structure(report: Report, word: str) -> None:
    """The same elements as with a plain word, but for those that fold or shorten by what the words are."""
    found, expected = page_of(with_text(report, word)), page_of(with_text(report, "plain"))
    for tag in ("script", "style", "section", "nav", "canvas", "img", "option", "h2"):
        assert found.counts.get(tag, 0) == expected.counts.get(tag, 0), (tag, word)
    assert not any(value.lower().startswith(("javascript:", "data:")) for value in found.values if len(value) < 30) or (
        word.lower().startswith(("javascript:", "data:"))
    )


def test_numbers_beyond_any_run() -> None:
    huge = 10**400
    report = profile()
    cell = report.cells[0]
    trace, memory = cell.trace, cell.memory
    assert trace is not None and memory is not None
    beyond = cell.model_copy(
        update={
            "first_call_ns": [huge],
            "batch_size": huge,
            "steps": [one.model_copy(update={"duration_ns": huge}) for one in cell.steps],
            "operators": [one.model_copy(update={"calls": huge, "self_host_ns": huge}) for one in cell.operators],
            "modules": [one.model_copy(update={"device_ns": huge}) for one in cell.modules],
            "fallbacks": [one.model_copy(update={"duration_ns": huge, "bytes": huge}) for one in cell.fallbacks],
            "memory": memory.model_copy(update={"peak_reserved_bytes": huge, "peak_allocated_bytes": huge}),
            "trace": trace.model_copy(update={"duration_ns": [huge] * len(trace.start_ns)}),
        }
    )
    assert page_of(report.model_copy(update={"cells": [beyond]})).data


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
