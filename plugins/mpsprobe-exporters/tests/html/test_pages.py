"""Whole pages, read strictly: what is in them, that it is the report's, and that no report breaks one."""

from __future__ import annotations

from typing import Any

import pytest
from hostile import HOSTILE, hostile_coverage, hostile_matrix, texts
from hypothesis import given, settings
from page_reader import Page

from mpsprobe.schemas import ProfileReport
from mpsprobe.schemas.report import Report
from mpsprobe_devkit.testing import sample_cell, sample_profile_report, sample_reports
from mpsprobe_exporters.html.exporter import HtmlExporter

READ = [kind for kind in sample_reports() if kind in ("profile", "coverage", "coverage-matrix", "comparison")]
# What the schemas allow only certain words for; other strings may be anything.
FIXED = {
    *("kind", "phase", "source", "categories", "method", "verdict", "unit", "quantity", "difference", "presence"),
    *("backend", "clock", "compares", "change", "samples", "old", "new", "old_verdict", "new_verdict"),
    *("answer", "basis", "varied"),
}
STORED = [word for word in HOSTILE if word != "\ud800"]  # which the schemas refuse in what is not a name
FREE_KEYS = {"phases", "values", "capabilities", "phase_samples_ns"}


def page_of(report: Report) -> Page:
    content = HtmlExporter().render(report)
    assert all(one.isprintable() or one == "\n" for one in content)
    read = Page(content)
    read.check()
    return read


def poisoned(report: Report, word: str) -> Report:
    """``report`` with ``word`` for every string, and every free key, that its schema lets be anything."""

    def walk(value: Any, key: str = "") -> Any:
        if isinstance(value, dict) and key == "findings":  # verdicts by operator
            return dict.fromkeys([word], next(iter(value.values()))) if value else {}
        if isinstance(value, dict):
            return {word if key in FREE_KEYS else inner: walk(found, inner) for inner, found in value.items()}
        if isinstance(value, list):
            return [walk(found, key) for found in value]
        return word if isinstance(value, str) and key not in FIXED else value

    document = {name: walk(value, name) for name, value in report.model_dump(mode="python").items()}
    return type(report).model_validate(document)


def profile(**more: Any) -> ProfileReport:
    return sample_profile_report().model_copy(update=more)


@pytest.mark.parametrize("kind", READ)
def test_samples_are_pages_that_fetch_and_run_nothing_else(kind: str) -> None:
    assert page_of(sample_reports()[kind]).counts["section"] >= 2


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
@pytest.mark.parametrize("word", STORED, ids=range(len(STORED)))
def test_no_known_string_adds_anything_to_a_page(kind: str, word: str) -> None:
    check_structure(sample_reports()[kind], word)


@settings(max_examples=40, deadline=None)
@given(texts)
def test_no_string_adds_anything_to_a_page(word: str) -> None:
    check_structure(sample_profile_report(), word.encode("utf-8", "replace").decode())


def check_structure(report: Report, word: str) -> None:
    """The same elements as with a plain word, but for those that fold or shorten by what the words are."""
    found, expected = page_of(poisoned(report, word)), page_of(poisoned(report, "plain"))
    for tag in ("script", "style", "section", "nav", "canvas", "img", "option", "h2"):
        assert found.counts.get(tag, 0) == expected.counts.get(tag, 0)
    assert not any(value.lower().startswith(("javascript:", "data:")) for value in found.values if len(value) < 30) or (
        word.lower().startswith(("javascript:", "data:"))
    )


@pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
def test_lone_surrogates_and_the_rest_in_coverage(word: str) -> None:
    page_of(hostile_coverage(word))
    page_of(hostile_matrix(word))


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


@pytest.mark.parametrize("count", [40, 400])
def test_many_configurations(count: int) -> None:
    cells = [sample_cell("cuda", 1000 + index, 1 + index) for index in range(count)]
    read = page_of(profile(cells=cells))
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
