"""A plan on fake devices, several processes in one report, and predicted fallbacks next to what was measured."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any
from unittest.mock import Mock

import pytest

from mpsprobe.engine.predicting import predict
from mpsprobe.engine.profiling import OUT_OF_MEMORY, merge, profile
from mpsprobe.engine.request import Plan, ProfileRequest, Run
from mpsprobe.engine.statistics import bootstrap_interval, clustered_interval, duration_statistics
from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import Device, RunOptions, Workload
from mpsprobe.schemas import (
    FallbackCost,
    OperatorTimeShare,
    ProfilePlan,
    ProfileReport,
    Report,
    RunFailure,
    TimePrediction,
)
from mpsprobe_devkit.testing import sample_cell, sample_coverage_report, sample_profile_report
from mpsprobe_devkit.testing.fakes import FakeDevice, FakeProbe, FakeProgress, FakeScanner, FakeSteps, FakeWorkload

MS = 1_000_000


def _plan(*devices: Device, batch_sizes: Any = (None,), seq_lens: Any = (None,)) -> Plan:
    runs = [
        Run(FakeWorkload(), RunOptions(batch_size=batch_size, seq_len=seq_len), device)
        for device, seq_len, batch_size in product(devices, seq_lens, batch_sizes)
    ]
    return Plan(ProfileRequest(steps=3, warmup=1), runs)


class _Opens(FakeDevice):
    """Calls ``before`` with name and batch size, which may raise, before it opens."""

    def __init__(self, before: Callable[[str, int | None], object], name: str = "fake") -> None:
        super().__init__(name)
        self._before = before

    def open(self, workload: Workload, options: RunOptions, *, compiled: bool = False) -> FakeSteps:
        self._before(self.name, options.batch_size)
        return super().open(workload, options, compiled=compiled)


def _up_to_four(_: str, size: int | None) -> None:
    if (size or 1) > 4:
        raise MemoryError("out of memory")


def test_every_configuration_is_measured_and_given_back() -> None:
    device = FakeDevice()
    report = profile(_plan(device, batch_sizes=(1, 2), seq_lens=(8, 16)), FakeProgress())
    assert [(c.batch_size, c.seq_len) for c in report.cells] == [(1, 8), (2, 8), (1, 16), (2, 16)]
    assert all(steps.closed for steps in device.opened) and report.complete
    assert (report.workloads[0].batch_size, report.workloads[0].seq_len) == (None, None)
    assert profile(_plan(device, batch_sizes=(2,)), FakeProgress()).workloads[0].batch_size == 2


def test_the_report_has_what_was_asked_for() -> None:
    request = ProfileRequest(
        preset="p", steps=3, warmup=1, clock="device", processes=2, compiled=True, runner="loop", probes=("all",)
    )
    runs = [
        Run(FakeWorkload("a"), RunOptions(phase=phase, batch_size=size), FakeDevice(name))
        for phase in ("training", "inference")
        for name in ("x", "y")
        for size in (None, 2)
    ]
    asked = {
        "preset": "p",
        "steps": 3,
        "warmup": 1,
        "processes": 2,
        "clock": "device",
        "compile": True,
        "runner": "loop",
    }
    planned = {"workloads": ["a"], "phases": ["training", "inference"], "devices": ["x", "y"], "baseline": "y"}
    sizes = {"batch_sizes": [None, 2], "seq_lens": [None], "probes": ["quick"]}
    report = profile(Plan(request, runs, [FakeProbe("quick")]), FakeProgress())
    assert report.plan == ProfilePlan.model_validate({**asked, **planned, **sizes})


def test_batch_sizes_that_fit_are_kept_when_one_does_not() -> None:
    small, large, middle = profile(_plan(_Opens(_up_to_four), batch_sizes=(2, 8, 4)), FakeProgress()).cells
    assert small.step is not None and middle.step is not None and large.step is None
    assert large.failure is not None and (large.failure.phase, large.failure.message) == ("build", OUT_OF_MEMORY)
    assert large.batch_size == 8
    with pytest.raises(WorkloadError, match="does not fit") as caught:
        profile(_plan(_Opens(_up_to_four), batch_sizes=(8,)), FakeProgress())
    assert caught.value.hint is not None and "--batch-size" in caught.value.hint


def test_memory_that_ends_during_a_step_keeps_the_steps_before() -> None:
    device = FakeDevice(durations=[MS, MS, MS, MemoryError("out of memory")])
    (cell,) = profile(_plan(device), FakeProgress()).cells
    assert len(cell.steps) == 1 and cell.failure is not None
    assert (cell.failure.phase, cell.failure.message) == ("steps", OUT_OF_MEMORY)
    assert device.opened[0].closed == 1


def test_ctrl_c_gives_a_partial_report() -> None:
    device = FakeDevice(durations=[*[MS] * 4, KeyboardInterrupt()])
    report = profile(_plan(device, batch_sizes=(1, 2)), FakeProgress())
    assert not report.complete and len(report.cells) == 1 and len(report.cells[0].steps) == 2


def _compared(log: list[tuple[str, int | None]], turn: int, stop_at: int | None = None) -> ProfileReport:
    """As the command plans it: the baseline, "y", is the last device. Ctrl-C comes at size ``stop_at`` of "x"."""

    def before(name: str, size: int | None) -> None:
        if (name, size) == ("x", stop_at):
            raise KeyboardInterrupt
        log.append((name, size))

    devices = [_Opens(before, "x"), _Opens(before, "y")]
    runs = [Run(FakeWorkload(), RunOptions(batch_size=size), device) for size in (1, 2) for device in devices]
    return profile(Plan(ProfileRequest(steps=3, warmup=1), runs), FakeProgress(), turn)


@pytest.mark.parametrize(("turn", "first", "second"), [(0, "x", "y"), (1, "y", "x"), (2, "x", "y")])
def test_a_baseline_is_measured_in_turns(turn: int, first: str, second: str) -> None:
    log: list[tuple[str, int | None]] = []
    report = _compared(log, turn)
    assert log == [(first, 1), (second, 1), (first, 2), (second, 2)]
    assert [(cell.device, cell.batch_size) for cell in report.cells] == [("x", 1), ("y", 1), ("x", 2), ("y", 2)]
    assert report.plan.baseline == "y"


def test_ctrl_c_before_the_first_of_a_pair_leaves_the_pair_out() -> None:
    log: list[tuple[str, int | None]] = []
    report = _compared(log, 1, stop_at=2)
    assert log == [("y", 1), ("x", 1), ("y", 2)] and not report.complete
    assert [(cell.device, cell.batch_size) for cell in report.cells] == [("x", 1), ("y", 1)]
    with pytest.raises(KeyboardInterrupt):
        _compared([], 1, stop_at=1)


def test_an_error_while_building_is_told_with_the_device() -> None:
    broken = _Opens(Mock(side_effect=ValueError("no such layer\nand more")))
    with pytest.raises(WorkloadError, match=r"cannot be built on fake: ValueError: no such layer$"):
        profile(_plan(broken), FakeProgress())


REPORT = sample_profile_report().model_copy(update={"complete": True})


def test_steps_of_every_process_are_kept_apart() -> None:
    slow = REPORT.model_copy(update={"cells": [sample_cell(step_us=2_000), *REPORT.cells[1:]]})
    merged = merge([REPORT, slow])
    cell = merged.cells[0]
    assert [step.process for step in cell.steps] == [0] * 5 + [1] * 5
    assert cell.step is not None and cell.step.count == 10
    assert (cell.step.low_ns, cell.step.high_ns) == (1_000_000, 2_020_000)
    assert cell.first_call_ns == [9_000_000, 8_000_000, 18_000_000, 16_000_000]
    assert merged.complete and merged.plan == REPORT.plan
    rate = cell.throughput[0]
    assert rate.per_second == 2 * 1e9 / cell.step.median_ns


def test_what_is_measured_once_says_so() -> None:
    cell = merge([REPORT, REPORT]).cells[0]
    assert cell.operators == REPORT.cells[0].operators
    assert "those of the first of 2 processes" in cell.notes[-1]


def test_peaks_are_the_largest_of_all_and_readings_name_their_process() -> None:
    memory = REPORT.cells[0].memory
    assert memory is not None
    larger = memory.model_copy(update={"peak_allocated_bytes": 9_000_000, "peak_reserved_bytes": None})
    second = REPORT.model_copy(update={"cells": [REPORT.cells[0].model_copy(update={"memory": larger})]})
    cell = merge([REPORT, second]).cells[0]
    assert cell.memory is not None
    assert (cell.memory.peak_allocated_bytes, cell.memory.peak_reserved_bytes) == (9_000_000, 4_000_000)
    assert [reading.process for reading in cell.readings] == [0, 1]


def test_an_interrupted_process_keeps_what_it_has() -> None:
    short = REPORT.model_copy(update={"cells": REPORT.cells[:1], "complete": False})
    merged = merge([REPORT, short])
    assert not merged.complete and len(merged.cells) == len(REPORT.cells)
    assert len(merged.cells[2].steps) == 5 and len(merged.cells[0].steps) == 10


def test_a_failure_of_any_process_is_told() -> None:
    failure = RunFailure(phase="steps", error="RuntimeError", message="no")
    failed = REPORT.model_copy(update={"cells": [REPORT.cells[0].model_copy(update={"failure": failure})]})
    assert merge([REPORT, failed]).cells[0].failure == failure


def test_the_interval_knows_that_processes_differ() -> None:
    generator = random.Random(1)
    groups = [[round(generator.gauss(level, 10)) for _ in range(50)] for level in (1_000, 1_100, 1_200)]
    low, high = clustered_interval(groups)
    naive = bootstrap_interval([sample for group in groups for sample in group])
    assert high - low > 3 * (naive[1] - naive[0])
    assert low < 1_010 and high > 1_190


def test_statistics_of_one_process_are_the_usual_ones() -> None:
    assert duration_statistics([1, 2, 3], []) == duration_statistics([1, 2, 3])
    assert duration_statistics([], []) is None
    assert merge([REPORT]) is REPORT


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
    predict(report, RUNS[::-1], lambda _: scanner, FakeProgress())
    # Two batch sizes; the devices differ, the prediction does not.
    assert [options.batch_size for _, options, asked in scanner.scanned if asked == ("installed",)] == [2, None]


def _on_a_mac(name: str, cores: str, scanner: FakeScanner) -> ProfileReport:
    """The sample's cell, of an M3 Max in the slow mode, with what ``scanner`` predicts of the chip."""
    sample = sample_profile_report()
    mac = sample.devices[0].model_copy(update={"name": name, "capabilities": {"gpu_cores": cores}})
    run = Run(FakeWorkload(sample.cells[0].workload), RunOptions(phase=sample.cells[0].phase), FakeDevice("mps"))
    report = sample.model_copy(update={"devices": [mac], "cells": sample.cells[:1]})
    return predict(report, [run], lambda _: scanner, FakeProgress())


def test_what_a_mac_took_stands_next_to_what_its_chip_was_predicted_to_take() -> None:
    cell = sample_profile_report().cells[0]
    took = {one.operator: (one.self_device_ns or 0) / cell.profiled_steps / 1e6 for one in cell.operators}
    slow, *usual = sorted(took, key=lambda name: -took[name])
    times = [
        OperatorTimeShare(
            operator=name, kind="matmul", calls=1, ms=0.001, alone_ms=took[name] / (3 if name == slow else 1)
        )
        for name in took
    ]
    time = TimePrediction(chip="m3-max", gpu_cores=40, step_ms=[1, 2, 3], bound_by="arithmetic", by_operator=times)
    scan = COVERAGE.model_copy(update={"time": time, "operators": [], "advisories": []})
    scanner = _Scanner(scan)
    chip = _on_a_mac("Apple M3 Max", "40", scanner).cells[0].chip
    assert scanner.scanned[0][1].chip == "Apple M3 Max 40core"
    assert chip is not None and (chip.chip, chip.gpu_cores) == ("m3-max", 40)
    [kind] = chip.by_class
    assert kind.measured_ms == pytest.approx(sum(took.values()))
    assert kind.predicted_ms == pytest.approx(sum(took.values()) - took[slow] * 2 / 3)
    [found] = chip.slow
    assert found.operator == slow and found.measured_ms == pytest.approx(3 * found.predicted_ms)
    assert found.remedy is None and usual
    advised = COVERAGE.advisories[0].model_copy(update={"operators": [slow], "workaround": "Do it otherwise."})
    of_advisory = scan.model_copy(update={"advisories": [advised]})
    chip = _on_a_mac("Apple M3 Max", "40", _Scanner(of_advisory)).cells[0].chip
    assert chip is not None and chip.slow[0].remedy == "Do it otherwise."


def test_a_chip_that_is_not_known_is_judged_as_any_mac() -> None:
    class Knows(_Scanner):
        def scan(self, *asked: Any) -> Report:
            super().scan(*asked)
            if asked[1].chip:
                raise UsageError(f"there is no chip {asked[1].chip}")
            return COVERAGE

    scanner = Knows(COVERAGE)
    report = _on_a_mac("Apple M9 Max", "99", scanner)
    assert [options.chip for _, options, _ in scanner.scanned] == ["Apple M9 Max 99core", "Apple M9 Max", None]
    assert report.cells[0].fallbacks and report.cells[0].chip is None


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
