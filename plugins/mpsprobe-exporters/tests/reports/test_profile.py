"""A profile as a document: numbers by hand, few configurations and many, and what there is no room for."""

from __future__ import annotations

import pytest

from mpsprobe.schemas import ProbeReading, ProfileReport
from mpsprobe_devkit.testing import sample_cell, sample_profile_report
from mpsprobe_exporters.document import Bars, Bullets, Document, Paragraph, Section, Table, written
from mpsprobe_exporters.markdown import MarkdownExporter
from mpsprobe_exporters.reports.configurations import speed_up
from mpsprobe_exporters.reports.profile import MOST_ROWS, document
from mpsprobe_exporters.reports.profile_details import MOST_DETAILED, spoken
from mpsprobe_exporters.table import TableExporter

OPERATORS = "Operators by their own time, in one step"
LEAVING = "Operators that leave MPS, in one step"


def section(report: ProfileReport, title: str) -> Section:
    return next(one for one in document(report).sections if one.title == title)


def rows(report: ProfileReport, title: str) -> list[tuple[str, ...]]:
    """The first table of a section, as it is written."""
    [table] = [one for one in section(report, title).blocks if isinstance(one, Table)]
    columns = [table.columns[index] for index in table.used()]
    return [
        tuple(written(row[index], one.kind) for index, one in zip(table.used(), columns, strict=True))
        for row in table.rows
    ]


def many(count: int) -> ProfileReport:
    """The sample's first configuration with ``count`` batch sizes, each on mps and cpu."""
    report = sample_profile_report()
    sizes = [{"batch_size": 2**index} for index in range(count)]
    cells = [cell.model_copy(update=size) for size in sizes for cell in (report.cells[0], report.cells[2])]
    return report.model_copy(update={"cells": cells})


def test_without_a_clock_of_the_device_the_host_orders_them() -> None:
    report = sample_profile_report()
    operators = [one.model_copy(update={"self_device_ns": None}) for one in report.cells[0].operators]
    report = report.model_copy(update={"cells": [report.cells[0].model_copy(update={"operators": operators})]})
    assert rows(report, OPERATORS)[-1] == ("aten::mm", "1", "100 µs", "25%", "encoder.0")


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
    report = sample_profile_report()
    empty = report.model_copy(update={"cells": [report.cells[1]]})
    assert [one.title for one in document(empty).at("first")] == ["What to do", "Configurations", "Remarks"]
    assert "failed" in TableExporter(40).render(empty)
    nothing = report.model_copy(update={"cells": []})
    for text in (TableExporter(80).render(nothing), MarkdownExporter().render(nothing)):
        assert "No training step" in text


def test_nothing_is_said_twice() -> None:
    warm = sample_cell().warmup
    assert warm is not None
    step = sample_cell().step
    assert step is not None
    update = {"warmup": warm.model_copy(update={"stable": False}), "step": step.model_copy(update={"spread": 0.3})}
    report = sample_profile_report().model_copy(update={"cells": [sample_cell().model_copy(update=update)]})
    text = TableExporter(120).render(report)
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
    cells = [
        cell.model_copy(update={"phase": phase})
        for phase in ("inference", "training")
        for cell in (report.cells[0], report.cells[2])
    ]
    workloads = [report.workloads[0].model_copy(update={"phase": phase}) for phase in ("inference", "training")]
    report = report.model_copy(update={"cells": cells, "workloads": workloads})
    [bars] = section(report, "Times as fast as cpu").blocks
    assert isinstance(bars, Bars) and [one.label for one in bars.rows] == ["sample training", "sample inference"]


def test_a_reading_is_named_without_its_unit() -> None:
    assert [spoken(name) for name in ("gpu_mj_per_sample", "battery_percent", "steps", "ns")] == [
        "gpu per sample",
        "battery",
        "steps",
        "ns",
    ]


def test_readings_of_several_processes_are_a_range_and_what_a_probe_says_of_itself_is_left_out() -> None:
    report = sample_profile_report()
    readings = [
        ProbeReading(probe="energy", values={"gpu_mj": v, "state": s, "steps": 5.0}, process=p, caveats=["short"])
        for p, (v, s) in enumerate([(812.0, "a"), (790.0, "b")])
    ]
    report = report.model_copy(update={"cells": [report.cells[0].model_copy(update={"readings": readings})]})
    assert rows(report, "Readings") == [("energy: gpu", "790 mJ to 812 mJ"), ("energy: state", "a, b")]
    assert section(report, "Readings").blocks[1:] == [Paragraph("energy: short")]


def test_what_was_not_taken_is_named_on_a_page() -> None:
    shown: Document = document(sample_profile_report().model_copy(update={"cells": [sample_cell()]}))
    [last] = [one for one in shown.sections if one.title == "Not in this report"]
    assert last.depth == "page" and isinstance(last.blocks[0], Paragraph)
    assert "trace" in last.blocks[0].text and "operators" in last.blocks[0].text
