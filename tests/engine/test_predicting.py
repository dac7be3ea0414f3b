"""Predicted fallbacks next to what was measured."""

from __future__ import annotations

from typing import Any

from mpsprobe.engine.predicting import predict
from mpsprobe.engine.request import Run
from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import FallbackCost, ProfileReport, Report, RunFailure
from mpsprobe_devkit.testing import sample_cell, sample_coverage_report, sample_profile_report
from mpsprobe_devkit.testing.fakes import FakeDevice, FakeProgress, FakeScanner, FakeWorkload

CELLS = [sample_cell(name, batch_size=size) for size in (4, 2) for name in "ab"]  # 4 is the workload's own
RUNS = [
    Run(FakeWorkload(CELLS[0].workload), RunOptions(phase=CELLS[0].phase, batch_size=size), FakeDevice(name))
    for size in (None, 2)
    for name in "ab"
]
COVERAGE = sample_coverage_report().model_copy(update={"failure": None})
BARE = sample_profile_report().model_copy(update={"cells": CELLS, "predicted_with": None, "notes": []})


class _Scanner(FakeScanner):
    def __init__(self, answer: Report | Exception) -> None:
        super().__init__()
        self.answer = answer

    def scan(self, *asked: Any) -> Report:
        super().scan(*asked)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def _predicted(answer: Report | Exception, report: ProfileReport = BARE) -> ProfileReport:
    return predict(report, RUNS, lambda _: _Scanner(answer), FakeProgress())


def test_operators_that_leave_mps_are_costs_of_each_cell() -> None:
    report = _predicted(COVERAGE)
    leaving = {one.operator: one for one in COVERAGE.operators if one.verdict in ("missing", "fallback", "unsupported")}
    assert leaving and report.predicted_with == COVERAGE.target.table
    for cell in report.cells:
        assert {cost.operator for cost in cell.fallbacks} == set(leaving)
        for cost in cell.fallbacks:
            one = leaving[cost.operator]
            assert (cost.method, cost.calls, cost.duration_ns) == ("predicted", one.calls, None)
            assert cost.bytes == one.input_bytes + one.output_bytes and cost.native_since == one.native_since
    interrupted = BARE.model_copy(update={"cells": BARE.cells[:1]})
    assert len(_predicted(COVERAGE, interrupted).cells) == 1


def test_equal_runs_are_predicted_once_whatever_their_order() -> None:
    scanner = _Scanner(COVERAGE)
    report = BARE.model_copy(update={"cells": CELLS[::-1]})
    predict(report, RUNS, lambda _: scanner, FakeProgress())
    # Two batch sizes; the devices differ, the prediction does not.
    assert [options.batch_size for _, options, asked in scanner.scanned if asked == ("installed",)] == [2, None]


def test_a_cell_of_no_run_is_a_note() -> None:
    report = _predicted(COVERAGE, BARE.model_copy(update={"cells": [CELLS[0].model_copy(update={"workload": "no"})]}))
    assert report.cells[0].fallbacks == [] and "'no' ran with other sizes" in report.notes[0]


def test_a_scanner_that_is_not_there_says_what_to_do() -> None:
    def scanner_for(framework: str) -> _Scanner:
        raise UsageError(f"no installed scanner reads '{framework}' workloads", "Install one.")

    [note] = predict(BARE, RUNS, scanner_for, FakeProgress()).notes
    assert note.endswith("not predicted: no installed scanner reads 'fake' workloads. Install one.")


def test_what_was_observed_stays_and_learns_the_release() -> None:
    name = next(one.operator for one in COVERAGE.operators if one.verdict == "fallback" and one.native_since)
    seen = FallbackCost(operator=name, calls=7, method="observed", verdict="missing", duration_ns=5, bytes=6)
    other = FallbackCost(operator="aten::zzz", calls=1, method="observed", verdict="fallback")
    cell = CELLS[0].model_copy(update={"fallbacks": [seen, other]})
    found = _predicted(COVERAGE, BARE.model_copy(update={"cells": [cell]})).cells[0].fallbacks
    assert [cost.operator for cost in found].count(name) == 1
    assert (found[0].method, found[0].calls, found[0].duration_ns) == ("observed", 7, 5)
    assert found[0].native_since is not None and found[1] == other


def test_a_prediction_that_fails_is_a_note_and_costs_no_measurement() -> None:
    for answer in (WorkloadError("no fake of it"), ValueError("bug"), BARE):
        report = _predicted(answer)
        [note] = report.notes
        assert note.startswith("which operators fall back on MPS was not predicted: ")
        assert report.cells == BARE.cells
    stopped = RunFailure(phase="forward", error="RuntimeError", message="no such size")
    partial = _predicted(COVERAGE.model_copy(update={"failure": stopped}))
    [note] = partial.notes
    assert note == "the prediction of fallbacks knows the operators before it stopped: RuntimeError: no such size"
    assert partial.cells[0].fallbacks
