"""The sections of a profile: numbers by hand, few configurations and many, and what there is no room for."""

from __future__ import annotations

import pytest

from mpsprobe.schemas import ProbeReading, ProfileReport
from mpsprobe_devkit.testing import sample_profile_report
from mpsprobe_exporters import profile_answer, speed_ups
from mpsprobe_exporters.markdown import MarkdownExporter
from mpsprobe_exporters.profile_sections import MOST_DETAILED, MOST_ROWS, Section, sections, spoken
from mpsprobe_exporters.table import TableExporter


def found(report: ProfileReport) -> dict[str, Section]:
    return {one.title.partition(" (")[0]: one for one in sections(report)}


def many(count: int) -> ProfileReport:
    """The sample's first configuration with ``count`` batch sizes, each on mps and cpu."""
    report = sample_profile_report()
    sizes = [{"batch_size": 2**index} for index in range(count)]
    cells = [cell.model_copy(update=size) for size in sizes for cell in (report.cells[0], report.cells[2])]
    return report.model_copy(update={"cells": cells})


def test_operators_are_of_one_step_by_self_time_on_the_device() -> None:
    section = found(sample_profile_report())["Operators, in one step"]
    assert section.rows[0] == ("aten::mm", "1", "100 µs", "280 µs", "64%", "encoder.0")
    assert [row[0] for row in section.rows] == ["aten::mm", "aten::linear", "aten::linalg_qr.out"]
    assert "slow mode" in section.lines[-1]


def test_without_a_clock_of_the_device_the_host_orders_them() -> None:
    report = sample_profile_report()
    operators = [one.model_copy(update={"self_device_ns": None}) for one in report.cells[0].operators]
    report = report.model_copy(update={"cells": [report.cells[0].model_copy(update={"operators": operators})]})
    section = found(report)["Operators, in one step"]
    assert section.rows[-1] == ("aten::mm", "1", "100 µs", "", "25%", "encoder.0")


def test_memory_says_how_peaks_were_taken() -> None:
    assert found(sample_profile_report())["Memory"].rows == (
        ("mps, batch 2, sequence 128", "1.5 MB", "4.0 MB", "900.0 MB", "largest of samples"),
    )


def test_fallbacks_have_what_they_cost_of_the_step() -> None:
    first, second = found(sample_profile_report())["Operators that leave MPS, in one step"].rows
    assert first == ("aten::linalg_qr.out", "missing", "1", "150 µs", "15%", "1.6 MB", "observed", "2.8.0")
    assert second == ("aten::col2im", "fallback", "2", "", "", "4.1 kB", "predicted", "-")


def test_processes_are_compared_by_their_medians() -> None:
    # Process 0 has 0.99, 1.0 and 1.5 ms, process 1 has 1.0 and 1.01 ms.
    assert found(sample_profile_report())["Processes"].rows[0][1:] == ("2", "1.00 ms", "1.00 ms", "0.5%")


def test_of_many_configurations_some_are_shown_in_full() -> None:
    report = many(30)
    by_title = [one.title for one in sections(report)]
    assert sum(title.startswith("Operators, in one step") for title in by_title) == MOST_DETAILED
    assert len(found(report)["Phases"].rows) == MOST_ROWS
    assert found(report)["Phases"].lines == ("20 more rows: csv has them all",)
    assert found(report)["Memory"].rows[0][0] == "batch 1"  # device and sequence are the same in all of them
    remarks = profile_answer.remarks(report)
    assert "60 configurations: 1 outlier among 5 steps, kept in the figures" in remarks and len(remarks) < 10
    text = TableExporter(80).render(report)
    assert max(map(len, text.splitlines())) <= 80


def test_nothing_measured_has_no_sections() -> None:
    report = sample_profile_report()
    empty = report.model_copy(update={"cells": [report.cells[1]]})
    assert list(sections(empty)) == [] and speed_ups.speed_ups(empty) == []
    assert "failed" in TableExporter(40).render(empty)
    nothing = report.model_copy(update={"cells": []})
    assert "No training step" in TableExporter(80).render(nothing) and "No training step" in MarkdownExporter().render(
        nothing
    )


def test_speed_ups_are_baseline_by_own_with_what_the_intervals_allow() -> None:
    [one] = speed_ups.speed_ups(sample_profile_report())
    assert (one.ratio, one.low, one.high) == pytest.approx((6.4, 6.4 / 1.01, 6.464))
    assert one.words == "6.40 x (6.34 to 6.46)"
    without = sample_profile_report()
    assert not speed_ups.speed_ups(
        without.model_copy(update={"plan": without.plan.model_copy(update={"baseline": None})})
    )


def test_training_comes_before_inference_as_in_the_announcement() -> None:
    report = sample_profile_report()
    cells = [
        cell.model_copy(update={"phase": phase})
        for phase in ("inference", "training")
        for cell in (report.cells[0], report.cells[2])
    ]
    workloads = [report.workloads[0].model_copy(update={"phase": phase}) for phase in ("inference", "training")]
    bars = speed_ups.speed_ups(report.model_copy(update={"cells": cells, "workloads": workloads}))
    assert [one.label for one in bars] == ["sample training", "sample inference"]


@pytest.mark.parametrize(
    ("ratio", "drawn"),
    [(8.0, "████"), (4.0, "██"), (5.0, "██▌"), (0.01, "▏"), (0.0, "▏"), (80.0, "████"), (-3.0, "▏")],
)
def test_a_bar_is_never_empty_and_never_too_long(ratio: float, drawn: str) -> None:
    assert speed_ups.bar(ratio, 8.0, 4) == drawn


def test_a_reading_is_named_without_its_unit() -> None:
    assert [spoken(name) for name in ("gpu_mj_per_sample", "battery_percent", "steps", "ns")] == [
        "gpu per sample",
        "battery",
        "steps",
        "ns",
    ]


def test_readings_of_several_processes_are_a_range() -> None:
    report = sample_profile_report()
    readings = [
        ProbeReading(probe="energy", values={"gpu_mj": v, "state": s}, process=p)
        for p, (v, s) in enumerate([(812.0, "a"), (790.0, "b")])
    ]
    report = report.model_copy(update={"cells": [report.cells[0].model_copy(update={"readings": readings})]})
    assert found(report)["Readings"].rows == (("energy: gpu", "790 mJ to 812 mJ"), ("energy: state", "a, b"))
