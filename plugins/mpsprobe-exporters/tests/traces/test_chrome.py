"""The exporter ``chrome``: what viewers need stands in the file, whatever the trace."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from example_reports import HOSTILE, hostile_profile, of_cells
from hypothesis import given, settings
from reports_with_traces import (
    DEVICE,
    HOST,
    KERNEL,
    LAUNCH,
    OPERATOR,
    hostile_report,
    nanoseconds,
    read,
    report_of,
    slices,
    trace_of,
    traces,
)

from mpsprobe import exporting
from mpsprobe.errors import ReportError
from mpsprobe.plugins.registry import Registry
from mpsprobe.schemas import Report, Trace
from mpsprobe_devkit.testing import sample_profile_report
from mpsprobe_exporters.traces.chrome import ChromeExporter


def exported(report: Report) -> dict[str, Any]:
    return read(ChromeExporter().render(report))


def test_the_sample_has_everything() -> None:
    trace = exported(sample_profile_report())
    events = trace["traceEvents"]
    kinds = {(one["ph"], one.get("cat")) for one in events}
    assert {("X", "cpu_op"), ("X", "kernel"), ("X", "gpu_memcpy"), ("X", "fallback"), ("X", "python_function")} <= kinds
    assert {("X", "privateuse1_runtime"), ("X", "user_annotation"), ("X", "timed_step"), ("i", "outlier")} <= kinds
    names = [one["args"]["name"] for one in events if one["name"] == "process_name"]
    assert [name.rpartition(": ")[2] for name in names] == ["timed steps", "host", "MPS", "timed steps"]
    assert all(name.startswith("sample training, ") for name in names)
    arrows = [one for one in events if one["ph"] == "s"]
    assert len(arrows) == 4  # two launches in each of two steps
    counted = {one["name"] for one in events if one["ph"] == "C"}
    assert {"allocated_bytes", "gpu_power_mw", "process_bytes"} <= counted
    outliers = [one["ts"] for one in slices(trace, "timed_step") if one.get("args") == {"outlier": "yes"}]
    assert len(outliers) == 2 and sorted(outliers) == sorted(one["ts"] for one in events if one["ph"] == "i")


def test_times_are_those_of_the_report() -> None:
    report = sample_profile_report()
    found = report.cells[0].trace
    assert found is not None
    kernels = slices(exported(report), "kernel")
    wanted = [
        (start, start + spent)
        for start, spent, category in zip(found.start_ns, found.duration_ns, found.category, strict=True)
        if found.categories[category] == "kernel"
    ]
    offset = nanoseconds(kernels[0])[0] - wanted[0][0]
    assert [nanoseconds(one) for one in kernels] == [(a + offset, b + offset) for a, b in wanted]
    assert offset == 15_480_000  # behind the longest process of timed steps: 9 + 2.99 ms, then 0.99 + 1 + 1.5
    assert kernels[0]["args"]["correlation"] == 1


def test_figures_that_no_run_gives_are_written_all_the_same() -> None:
    report = hostile_profile("x")
    assert len(slices(exported(report), "timed_step")) == sum(len(cell.steps) for cell in report.cells)


def test_a_profile_without_a_trace_shows_its_steps_and_says_so() -> None:
    trace = exported(report_of(None))
    assert len(slices(trace, "timed_step")) == 5
    assert len(slices(trace, "phase_median")) == 3
    events = trace["traceEvents"]
    [label] = [one["args"]["labels"] for one in events if one["name"] == "process_labels"]
    assert "nothing in them was profiled" in label


def test_nothing_measured_is_an_error_that_says_what_to_do() -> None:
    for report in (of_cells(), report_of(None, steps=[]), report_of(trace_of([]), steps=[])):
        with pytest.raises(ReportError, match="nothing to draw") as raised:
            ChromeExporter().render(report)
        assert "--probe operators" in str(raised.value)


def test_events_are_put_in_order_or_get_a_row_of_their_own() -> None:
    rows = [(0, OPERATOR, HOST, -1, 0, start, 100) for start in (0, 50, 60, 170)]
    trace = exported(report_of(trace_of(rows), steps=[]))
    found = slices(trace, "cpu_op")
    assert found[0]["tid"] == found[3]["tid"] and len({one["tid"] for one in found}) == 3
    names = {one["tid"]: one["args"]["name"] for one in trace["traceEvents"] if one["name"] == "thread_name"}
    assert [names[one["tid"]] for one in found] == ["python", "python (2)", "python (3)", "python"]
    assert [nanoseconds(one) for one in found] == [(0, 100), (50, 150), (60, 160), (170, 270)]
    rows = [(0, OPERATOR, HOST, -1, 0, start, spent) for start, spent in ((50, 10), (0, 10), (0, 100))]
    found = slices(exported(report_of(trace_of(rows), steps=[])), "cpu_op")
    assert [nanoseconds(one) for one in found] == [(0, 100), (0, 10), (50, 60)]
    assert len({one["tid"] for one in found}) == 1


def test_a_kernel_before_its_launch_gets_no_arrow() -> None:
    rows = [(0, KERNEL, DEVICE, -1, 5, 0, 10), (0, LAUNCH, HOST, -1, 5, 20, 10), (0, KERNEL, DEVICE, -1, 5, 40, 10)]
    trace = exported(report_of(trace_of(rows), steps=[]))
    arrow = [(one["ph"], one["ts"]) for one in trace["traceEvents"] if one["ph"] in "sf"]
    assert arrow == [("s", 0.02), ("f", 0.04)]


def test_what_is_there_twice() -> None:
    report = of_cells(*sample_profile_report().cells[:1] * 2)
    assert len(slices(exported(report), "kernel")) == 8  # it holds each arrow and each thread against all others
    events = exported(hostile_report("same"))["traceEvents"]
    assert {"same", "same (2)"} == {one["name"] for one in events if one["ph"] == "C" and "same" in one["name"]}


def test_hostile_names_stay_names() -> None:
    for text in HOSTILE:
        trace = exported(hostile_report(text))
        clean = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        assert {one["name"] for one in slices(trace, "cpu_op")} == {f"ProfilerStep#{clean}"}
        assert slices(trace, "kernel")[0]["args"]["correlation"] == 7
        assert slices(trace, "kernel")[0]["args"]["correlation (note)"] == clean


@settings(max_examples=60, deadline=None)
@given(trace=traces())
def test_any_trace_gives_a_file_by_the_rules(trace: Trace) -> None:
    events = exported(report_of(trace, steps=[]))["traceEvents"]
    assert sum(one["ph"] == "X" for one in events) == len(trace.start_ns)


def test_it_comes_in_pieces_and_no_name_is_kept_beyond_a_number() -> None:
    count = 100_000
    rows = [(index, OPERATOR, HOST, -1, 0, index, 1) for index in range(count)]
    report = report_of(trace_of(rows, [f"name {index}" for index in range(count)]), steps=[])
    sizes = [len(piece) for piece in ChromeExporter().stream(report)]
    assert sum(sizes) > 8_000_000 and max(sizes) < 1_000_000


def test_it_is_found_by_its_extension_and_written_as_rendered(tmp_path: Path) -> None:
    registry = Registry(strict=True)
    path = tmp_path / "a.trace.json"
    assert exporting.exporter_for(registry, path) == "chrome"
    exporting.write(registry, "chrome", sample_profile_report(), str(path))
    assert json.loads(path.read_text()) == exported(sample_profile_report())
    assert list(itertools.islice(tmp_path.iterdir(), 2)) == [path]
