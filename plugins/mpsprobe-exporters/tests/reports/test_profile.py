"""A profile as a document: few configurations and many, what its figures recommend, and what a trace comes to."""

from __future__ import annotations

from typing import Any

import pytest
from example_reports import of_cells, profile_of
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.schemas import DurationStatistics, MemoryUse, ProbeReading, ProfileCell, ProfileReport, Trace
from mpsprobe_devkit.testing import sample_cell, sample_profile_report, sample_trace
from mpsprobe_exporters.document import Bars, Bullets, Document, Paragraph, Section, Table, written
from mpsprobe_exporters.markdown import MarkdownExporter
from mpsprobe_exporters.reports.configurations import speed_up
from mpsprobe_exporters.reports.profile import document
from mpsprobe_exporters.reports.profile_advice import Advice, divided, recommendations
from mpsprobe_exporters.reports.profile_configurations import MOST_ROWS
from mpsprobe_exporters.reports.profile_measurements import MOST_DETAILED, spoken
from mpsprobe_exporters.reports.trace_summary import divide, merged, overlap, totals
from mpsprobe_exporters.table import TableExporter

US = 1_000
OPERATORS = "Operators by their own time, in one step"
LEAVING = "Operators that leave MPS, in one step"


def section(report: ProfileReport, title: str) -> Section:
    return next(one for one in document(report).sections if one.title == title)


def rows(report: ProfileReport, title: str) -> list[tuple[str, ...]]:
    """The first table of a section, as it is written."""
    [table] = [one for one in section(report, title).blocks if isinstance(one, Table)]
    kinds = [(index, table.columns[index].kind) for index in table.used()]
    return [tuple(written(row[index], kind) for index, kind in kinds) for row in table.rows]


def many(count: int) -> ProfileReport:
    """The sample's first configuration with ``count`` batch sizes, each on mps and cpu."""
    own = sample_profile_report().cells[0:3:2]
    sizes = [{"batch_size": 2**index} for index in range(count)]
    return of_cells(*(cell.model_copy(update=size) for size in sizes for cell in own))


def test_without_a_clock_of_the_device_the_host_orders_them() -> None:
    operators = [one.model_copy(update={"self_device_ns": None}) for one in sample_profile_report().cells[0].operators]
    assert rows(profile_of(operators=operators), OPERATORS)[-1] == ("aten::mm", "1", "100 µs", "25%", "encoder.0")


def test_of_many_configurations_a_terminal_shows_some_in_full_and_a_page_all() -> None:
    report = many(30)
    shown = document(report)
    assert sum(one.title == OPERATORS for one in shown.at("first")) == MOST_DETAILED
    assert sum(one.title == OPERATORS for one in shown.at("first", "page")) == 30
    [table] = section(report, "Phases of a step").blocks
    assert isinstance(table, Table) and len(table.first()) == MOST_ROWS
    assert table.left() == "20 more rows: CSV has them all"
    assert rows(report, "Peak memory")[0][0] == "batch 1"  # device and sequence are the same in all of them
    [remarks] = section(report, "Remarks").blocks
    assert isinstance(remarks, Bullets) and len(remarks.lines) < 10
    assert any(one.text == "60 configurations: 1 outlier among 5 steps, kept in the figures" for one in remarks.lines)
    text = TableExporter(80).render(report)
    assert max(map(len, text.splitlines())) <= 80


def test_nothing_measured_has_no_figures() -> None:
    empty = of_cells(sample_profile_report().cells[1])
    assert [one.title for one in document(empty).at("lead", "first")] == ["What to do", "Configurations", "Remarks"]
    assert "failed" in TableExporter(40).render(empty)
    for text in (TableExporter(80).render(of_cells()), MarkdownExporter().render(of_cells())):
        assert "No training step" in text


def test_nothing_is_said_twice() -> None:
    warm, step = sample_cell().warmup, sample_cell().step
    assert warm is not None and step is not None
    update = {"warmup": warm.model_copy(update={"stable": False}), "step": step.model_copy(update={"spread": 0.3})}
    text = TableExporter(120).render(of_cells(sample_cell().model_copy(update=update)))
    assert text.count("had not settled") == text.count("vary by 30%") == text.count("30%") - 1 == 1


def test_speed_ups_are_baseline_by_own_with_what_the_intervals_allow() -> None:
    report = sample_profile_report()
    assert speed_up(report, report.cells[0]) == pytest.approx((6.4, 6.4 / 1.01, 6.464))
    [bars] = section(report, "Times as fast as cpu").blocks
    assert isinstance(bars, Bars) and [one.said for one in bars.rows] == ["6.40 x (6.34 to 6.46)"]
    without = report.model_copy(update={"plan": report.plan.model_copy(update={"baseline": None})})
    assert speed_up(without, report.cells[0]) is None


def test_training_comes_before_inference_as_in_the_announcement() -> None:
    report = sample_profile_report()
    phases = [{"phase": phase} for phase in ("inference", "training")]
    cells = [cell.model_copy(update=one) for one in phases for cell in (report.cells[0], report.cells[2])]
    workloads = [report.workloads[0].model_copy(update=one) for one in phases]
    report = report.model_copy(update={"cells": cells, "workloads": workloads})
    [bars] = section(report, "Times as fast as cpu").blocks
    assert isinstance(bars, Bars) and [one.label for one in bars.rows] == ["sample training", "sample inference"]


def test_a_reading_is_named_without_its_unit() -> None:
    said = {"gpu_mj_per_sample": "gpu per sample", "battery_percent": "battery", "steps": "steps", "ns": "ns"}
    assert {name: spoken(name) for name in said} == said


def test_readings_of_several_processes_are_a_range_and_what_a_probe_says_of_itself_is_left_out() -> None:
    readings = [
        ProbeReading(probe="energy", values={"gpu_mj": v, "state": s, "steps": 5.0}, process=p, caveats=["short"])
        for p, (v, s) in enumerate([(812.0, "a"), (790.0, "b")])
    ]
    report = profile_of(readings=readings)
    assert rows(report, "Readings") == [("energy: gpu", "790 mJ to 812 mJ"), ("energy: state", "a, b")]
    assert section(report, "Readings").blocks[1:] == [Paragraph("energy: short")]


def test_what_was_not_taken_is_named_on_a_page() -> None:
    shown: Document = document(of_cells(sample_cell()))
    [last] = [one for one in shown.sections if one.title == "Not in this report"]
    assert last.depth == "page" and isinstance(last.blocks[0], Paragraph)
    assert "trace" in last.blocks[0].text and "operators" in last.blocks[0].text


def advised(*cells: ProfileCell) -> list[Advice]:
    report = of_cells(*cells)
    return recommendations(report, divided(report))


def cell(**more: Any) -> ProfileCell:
    return sample_cell().model_copy(update={"dtype": "float16", **more})


def step(found: ProfileCell, **more: Any) -> DurationStatistics:
    assert found.step is not None
    return found.step.model_copy(update=more)


def test_what_asks_for_nothing() -> None:
    assert advised(cell()) == []
    assert advised() == []
    cost = sample_profile_report().cells[0].fallbacks[0]
    small = [cost.model_copy(update={"operator": f"aten::op{i}", "duration_ns": 2 * US}) for i in range(5)]
    assert advised(cell(fallbacks=small)) == []
    # Precision is asked for where nobody tried it.
    assert [one.kind for one in advised(cell(dtype="float32"))] == ["precision"]
    assert advised(cell(dtype="float32"), cell(dtype="bfloat16", device="mps")) == []
    assert advised(cell(dtype="float32", device="cpu")) == []


def test_a_device_that_waits_is_host_bound_unless_the_probe_made_it_wait() -> None:
    trace = sample_trace()
    kernel = trace.categories.index("kernel")
    times = zip(trace.duration_ns, trace.category, strict=True)
    short = [spent // 4 if category == kernel else spent for spent, category in times]
    waiting = trace.model_copy(update={"duration_ns": short})
    [one] = advised(cell(trace=waiting))
    assert one.kind == "host-bound" and one.finding.startswith("The device works for 190 µs of a step of 1.00 ms (19%)")
    assert one.share == pytest.approx(0.81, abs=0.005)
    slow = sample_profile_report().cells[0].operators
    assert {operator.source for operator in slow} == {"slow mode"}
    assert advised(cell(trace=waiting, operators=slow)) == []
    assert advised(cell(trace=sample_trace())) == []


def test_hosts_outside_operators_and_copies_that_nothing_hides() -> None:
    trace = sample_trace()
    host = ["other" if one in ("kernel", "copy", "launch", "operator") else one for one in trace.categories]
    [one] = advised(cell(device="cpu", trace=trace.model_copy(update={"categories": host})))
    assert one.kind == "host-bound" and "inside operators; the rest is Python" in one.finding
    trace = sample_trace()
    sizes = [80 * US if trace.names[trace.name[i]].endswith("to CPU") else d for i, d in enumerate(trace.duration_ns)]
    found = advised(cell(trace=trace.model_copy(update={"duration_ns": sizes})))
    assert [one.finding for one in found] == ["For 12% of the profiled steps tensors are copied while no kernel runs."]


def test_many_tiny_kernels() -> None:
    count = 400
    columns = {**{name: [0] * count for name in ("track", "flow", "name", "category")}, "detail": [-1] * count}
    times = {"start_ns": [index * 5 * US for index in range(count)], "duration_ns": [4 * US] * count}
    kinds = {"names": ["k"], "categories": ["kernel"], "tracks": [{"name": "queue", "kind": "device"}]}
    [one] = advised(cell(trace=Trace.model_validate({**kinds, **columns, **times})))
    said = "400 kernels a step take 4.00 µs on average; to start one takes as long."
    assert (one.kind, one.finding) == ("tiny kernels", said)


def test_steps_that_differ_and_the_beginning_of_a_run() -> None:
    warmup, phases = cell().warmup, cell().phases
    assert warmup is not None
    said = [
        (cell(step=step(cell(), spread=0.3)), "Steps vary by 30% of their median."),
        (cell(step=step(cell(), high_ns=1.2e6)), "The median is known only to lie between 1.00 ms and 1.20 ms."),
        (cell(step=step(cell(), count=30, outliers=4)), "4 of 30 steps are outliers, the longest takes 1.50 ms."),
        (cell(warmup=warmup.model_copy(update={"stable": False})), "The steps had not settled after 3 warm-up steps."),
        (cell(first_call_ns=[2_000_000_000]), "The first call takes 2.00 s, as long as 2,000 steps."),
        (cell(phases={**phases, "optimizer": phases["forward"]}), "The optimizer takes 500 µs, 50% of a step."),
    ]
    found = [(one.finding, one.kind) for changed, _ in said for one in advised(changed)]
    kinds = ("noise", "noise", "outliers", "warm-up", "first call", "optimizer")
    assert found == list(zip((words for _, words in said), kinds, strict=True))


def test_memory_near_its_end_and_beyond() -> None:
    near = MemoryUse(source="allocator", peak_reserved_bytes=47 * 10**9)
    failed = sample_profile_report().cells[1].model_copy(update={"dtype": "float16"})
    first, second = advised(cell(memory=near), failed)
    assert first.finding == "It did not fit into memory." and first.where == "mps, batch 512, sequence 128"
    assert "a smaller batch (batch 2 fits)" in first.remedy
    assert second.finding == "47.0 GB of the device's 48.0 GB were in use at the peak."
    assert advised(cell(memory=near.model_copy(update={"peak_reserved_bytes": 10**9}))) == []


def test_a_device_that_is_slower_and_batches_that_no_longer_help() -> None:
    def timed(device: str, spent: int, batch: int = 2) -> ProfileCell:
        return sample_cell(device, spent, batch).model_copy(update={"dtype": "float16"})

    [one] = advised(timed("mps", 9_000), sample_cell("cpu").model_copy(update={"dtype": "float16"}))
    assert (one.kind, one.finding) == ("slower", "A step takes 9.00 times as long as on cpu.")
    [one] = advised(*(timed("mps", spent, batch) for spent, batch in ((1_000, 2), (1_500, 4), (2_900, 8))))
    assert (one.kind, one.finding) == ("saturated", "Batch 8 gives +3% samples/s over batch 4.")


def test_what_costs_most_comes_first_and_what_several_need_is_there_once() -> None:
    costs = sample_profile_report().cells[0].fallbacks
    costs[1:] = [costs[1].model_copy(update={"duration_ns": 250 * US})]
    cells = [
        cell(batch_size=index, fallbacks=[costs[0].model_copy(update={"duration_ns": index * 100 * US}), costs[1]])
        for index in range(1, 4)
    ]
    first, second = (one for one in advised(*cells) if one.kind == "fallback")
    assert first.share == pytest.approx(0.3) and first.where == "mps, batch 3, sequence 128"
    assert first.also == ("mps, batch 2, sequence 128", "mps, batch 1, sequence 128")
    assert second.share == pytest.approx(0.25) and len(second.also) == 2


intervals = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda one: (one[0], one[0] + one[1])))


def test_kernels_and_copies() -> None:
    [gemm] = totals(sample_trace(2), "kernel")
    assert gemm == ("gemm_float", 4, 2 * (160 + 280) * US, 160 * US, 280 * US, None)
    copies = totals(sample_trace(2), "copy")
    assert copies == [(way, 2, 80 * US, 40 * US, 40 * US, 2 * 786_432) for way in ("CPU to MPS", "MPS to CPU")]
    trace = sample_trace(1)
    details = [{"bytes": "9" * 400} for _ in trace.details]
    assert [one.bytes for one in totals(trace.model_copy(update={"details": details}), "copy")] == [None, None]


def test_a_step_divides_into_parts_that_exclude_each_other() -> None:
    found = divide(sample_trace(2))
    assert found is not None
    # Of each step of 1000 µs: kernels 130-290 and 600-880; copies 305-345 and 400-440; the fallback 300-450 without
    # them; operators 20-170 and 520-620 without kernels: 20-130 and 520-600.
    assert (found.steps, found.kernels, found.total_ns) == (2, 4, 2_000 * US)
    assert (found.kernel_ns, found.copy_ns, found.fallback_ns) == (880 * US, 160 * US, 140 * US)
    assert found.operator_ns == 2 * (110 + 80) * US
    parts = (found.kernel_ns, found.copy_ns, found.fallback_ns, found.operator_ns, found.other_ns)
    assert sum(parts) == found.total_ns
    assert found.busy == 0.52
    huge = divide(sample_trace(1).model_copy(update={"duration_ns": [10**400] * 15}))
    assert huge is not None and float(huge.total_ns) == 1e18, "what no run gives is bounded"


def test_without_steps_the_whole_trace_counts_as_one_and_nothing_divides_into_nothing() -> None:
    trace = sample_trace(2)
    found = divide(trace.model_copy(update={"categories": ["other" if c == "step" else c for c in trace.categories]}))
    assert found is not None and (found.steps, found.total_ns) == (1, 2_000 * US)
    assert divide(Trace()) is None
    trace = sample_trace(1)
    assert divide(trace.model_copy(update={"duration_ns": [0] * len(trace.start_ns), "start_ns": [5] * 15})) is None


@given(intervals, intervals)
def test_overlap_is_that_of_sets(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    def points(found: list[tuple[int, int]]) -> set[int]:
        return {point for start, end in found for point in range(start, end)}

    assert points(merged(one)) == points(one)
    assert all(before[1] < after[0] for before, after in zip(merged(one), merged(one)[1:], strict=False))
    assert overlap(merged(one), merged(other)) == len(points(one) & points(other))
