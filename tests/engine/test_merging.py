"""Several processes in one report."""

from __future__ import annotations

import random

from mpsprobe.engine.merging import clustered_statistics, merge
from mpsprobe.engine.statistics import bootstrap_interval, clustered_interval, duration_statistics
from mpsprobe.schemas.coverage import RunFailure
from mpsprobe_devkit.testing import sample_cell, sample_profile_report

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
    assert clustered_statistics([[1, 2, 3], []]) == duration_statistics([1, 2, 3])
    assert clustered_statistics([[], []]) is None
    assert merge([REPORT]) is REPORT
