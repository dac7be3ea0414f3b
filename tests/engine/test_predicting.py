"""Predicted fallbacks beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from mpsprobe.engine.predicting import predict
from mpsprobe.engine.profiling import Configuration
from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import Progress, RunOptions, Workload
from mpsprobe.schemas import FallbackCost, ProfileReport, Report, RunFailure
from mpsprobe_devkit.testing import sample_cell, sample_coverage_report, sample_profile_report
from mpsprobe_devkit.testing.fakes import FakeDevice, FakeProgress, FakeWorkload

PLAN = [Configuration(FakeWorkload(), RunOptions(batch_size=size), FakeDevice()) for size in (1, 1, 2)]
COVERAGE = sample_coverage_report().model_copy(update={"failure": None})
BARE = sample_profile_report().model_copy(update={"cells": [sample_cell()] * 3, "predicted_with": None, "notes": []})


class _Scanner:
    """Returns or raises ``answer``, and counts."""

    def __init__(self, answer: Report | Exception) -> None:
        self.answer, self.asked = answer, 0

    def scan(
        self, workload: Workload, options: RunOptions, torch_releases: Sequence[str], progress: Progress
    ) -> Report:
        self.asked += 1
        assert list(torch_releases) == ["installed"]
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def _predicted(answer: Report | Exception, report: ProfileReport = BARE) -> ProfileReport:
    return predict(report, PLAN, _Scanner(answer), FakeProgress())


def test_operators_that_leave_mps_are_costs_of_each_cell() -> None:
    coverage = COVERAGE
    report = _predicted(coverage)
    leaving = {one.operator: one for one in coverage.operators if one.verdict in ("missing", "fallback", "unsupported")}
    assert leaving
    for cell in report.cells:
        assert {cost.operator for cost in cell.fallbacks} == set(leaving)
        for cost in cell.fallbacks:
            one = leaving[cost.operator]
            assert (cost.method, cost.calls, cost.duration_ns) == ("predicted", one.calls, None)
            assert cost.bytes == one.input_bytes + one.output_bytes and cost.native_since == one.native_since
    assert report.predicted_with == coverage.target.table


def test_equal_configurations_are_predicted_once() -> None:
    scanner = _Scanner(COVERAGE)
    predict(BARE, PLAN, scanner, FakeProgress())
    assert scanner.asked == 2  # two batch sizes; the devices differ, the prediction does not


def test_what_was_observed_stays_and_learns_the_release() -> None:
    coverage = COVERAGE
    name = next(one.operator for one in coverage.operators if one.verdict == "fallback" and one.native_since)
    seen = FallbackCost(operator=name, calls=7, method="observed", verdict="missing", duration_ns=5, bytes=6)
    other = FallbackCost(operator="aten::zzz", calls=1, method="observed", verdict="fallback")
    cell = sample_cell().model_copy(update={"fallbacks": [seen, other]})
    found = _predicted(coverage, BARE.model_copy(update={"cells": [cell]})).cells[0].fallbacks
    assert [cost.operator for cost in found].count(name) == 1
    assert (found[0].method, found[0].calls, found[0].duration_ns) == ("observed", 7, 5)
    assert found[0].native_since is not None and found[1] == other


def test_a_prediction_that_fails_is_a_note_and_costs_no_measurement() -> None:
    stopped = RunFailure(phase="forward", error="RuntimeError", message="no such size")
    failed = sample_coverage_report().model_copy(update={"failure": stopped})
    for answer in (WorkloadError("no fake of it"), ValueError("bug"), BARE):
        report = _predicted(answer)
        [note] = report.notes
        assert note.startswith("which operators fall back on MPS was not predicted: ")
        assert report.cells == BARE.cells
    partial = _predicted(failed)
    assert partial.notes == [
        "the prediction of fallbacks knows the operators before it stopped: RuntimeError: no such size"
    ]
    assert partial.cells[0].fallbacks


def test_an_interrupted_report_has_fewer_cells() -> None:
    report = BARE.model_copy(update={"cells": BARE.cells[:1]})
    assert len(_predicted(COVERAGE, report).cells) == 1
