"""Two profiles whose true difference is known, because they are made up; two reports on coverage."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from benchmarks import difference  # its table is in docs/explanation/comparing.md
from mpsprobe.engine.comparing import BELOW, ONE_PROCESS, UNEVEN, compare_profiles
from mpsprobe.engine.comparing_coverage import compare_coverage, compare_matrices
from mpsprobe.errors import ReportError
from mpsprobe.schemas import (
    ComparedQuantity,
    ComparisonReport,
    CoverageReport,
    FallbackCost,
    MemoryUse,
    OperatorFinding,
    OperatorTime,
    ProfileReport,
    Verdict,
)
from mpsprobe_devkit.testing import sample_coverage_report, sample_matrix_report, sample_profile_report

HUGE = 10**400


def made(seed: int, processes: int = 5, slower: float = 0.0, steps: int = 20, **noise: float) -> ProfileReport:
    return difference.report(random.Random(seed), difference.Noise(**noise), processes, steps, slower)


def compared(old: ProfileReport, new: ProfileReport, **options: Any) -> ComparisonReport:
    return compare_profiles(old, new, ("old.json", "new.json"), **options)


def quantities(old: ProfileReport, new: ProfileReport, **options: Any) -> dict[str, ComparedQuantity]:
    """Those of the first cell, by name."""
    return {one.name: one for one in compared(old, new, **options).cells[0].quantities}


def changed(report: ProfileReport, **fields: Any) -> ProfileReport:
    cells = [report.cells[0].model_copy(update=fields), *report.cells[1:]]
    return report.model_copy(update={"cells": cells})


def test_ten_percent_are_found_over_processes() -> None:
    old, new = made(1, process=0.01), made(2, slower=0.1, process=0.01)
    found, step = compared(old, new), quantities(old, new)["step"]
    assert step.difference == "slower" and step.regression and step.samples == "process" and step.test == "Welch"
    assert step.low is not None and step.high is not None and step.ratio is not None
    assert 1.05 < step.low < step.ratio < step.high < 1.15
    assert (step.old_count, step.new_count) == (5, 5)
    assert step.p_value is not None and step.adjusted_p_value is not None and step.p_value < step.adjusted_p_value
    assert found.method is not None and found.method.tests == 5  # step, first call and three phases
    assert found.regressions == sum(one.regression for one in found.cells[0].quantities) >= 4
    assert found.notes == []
    # The other way round.
    assert quantities(new, old)["step"].difference == "faster" and compared(new, old).regressions == 0


def test_a_report_differs_in_nothing_from_itself() -> None:
    one = made(3)
    found = compared(one, one)
    assert {one.difference for one in found.cells[0].quantities} == {"no difference"}
    assert found.conditions == [] and found.unpaired == [] and found.regressions == 0


def test_one_process_is_tested_by_its_steps_and_says_so() -> None:
    old, new = made(1, 1), made(2, 1, slower=0.1)
    found = quantities(old, new)
    step = found["step"]
    assert step.samples == "step" and step.old_count == 20 and step.difference == "slower"
    assert ONE_PROCESS in compared(old, new).notes
    for name in ("first call", "forward"):
        assert found[name].difference == "too few samples"
        assert "2 processes on each side" in (found[name].note or "")
    assert found["first call"].low is None
    step = quantities(made(1, 1, steps=5), made(2, 1, steps=5, slower=0.5))["step"]
    assert step.difference == "too few samples" and not step.regression
    assert "8 steps on each side" in (step.note or "")


def test_one_process_against_several_is_not_tested() -> None:
    old, new = made(1, 1), made(2, 5, slower=0.5)
    step = quantities(old, new)["step"]
    assert step.difference == "too few samples" and step.note == UNEVEN
    assert [one.what for one in compared(old, new).conditions] == ["processes"]


def test_a_certain_difference_below_the_threshold_is_none() -> None:
    old, new = made(1, 10, step=0.001), made(2, 10, step=0.001, slower=0.01)
    step = quantities(old, new)["step"]
    assert step.difference == "no difference" and step.note == BELOW and (step.adjusted_p_value or 1) < 0.001
    assert quantities(old, new, threshold=0.005)["step"].difference == "slower"


@pytest.mark.parametrize(("processes", "together"), [(3, 0.0), (5, 0.5), (1, 0.5)])
def test_equal_programs_seldom_differ(processes: int, together: float) -> None:
    between = 0.01 if processes > 1 else 0.0
    runs = 60 if processes > 1 else 12  # a bootstrap of steps takes longer than a t-test
    alarms, _ = difference.rates(difference.Noise(process=between, together=together), processes, 20, 0.0, runs)
    assert alarms * runs <= 8  # of 60, 3 expected at the level; more than 8 has a probability below 1 %


def test_five_percent_slower_is_found() -> None:
    _, found = difference.rates(difference.Noise(process=0.01), 5, 20, 0.05, 40)
    assert found >= 0.8


def test_throughput_goes_with_the_step_and_medians_without_samples_are_not_tested() -> None:
    report = sample_profile_report()  # its phases have no samples
    found = quantities(report, report)
    assert found["samples/s"].unit == "per_second" and found["samples/s"].difference == found["step"].difference
    assert found["samples/s"].ratio == 1.0 and not found["samples/s"].regression
    forward = found["forward"]
    assert (forward.difference, forward.ratio, forward.p_value) == ("not tested", 1.0, None)
    assert quantities(changed(report, steps=[]), report)["step"].difference == "not tested"


@pytest.mark.parametrize(("source", "difference"), [("allocator", "larger"), ("sampled", "not tested")])
def test_memory_is_judged_where_the_allocator_counts(source: str, difference: str) -> None:
    def using(peak: int) -> ProfileReport:
        fields = {"peak_allocated_bytes": peak, "peak_reserved_bytes": peak, "peak_process_bytes": 7}
        return changed(made(1), memory=MemoryUse.model_validate({"source": source, **fields}))

    old, new = using(1000), using(1100)
    found = quantities(old, new)
    peak = found["peak allocated"]
    assert peak.difference == difference and peak.regression == (difference == "larger")
    assert found["peak reserved"].difference == "not tested"
    assert compared(old, new).regressions == (difference == "larger")


def test_operators_are_told_for_one_step_and_not_tested() -> None:
    def timed(calls: int, spent: int, device: int | None) -> OperatorTime:
        return OperatorTime(
            operator="aten::mm", calls=calls, host_ns=spent, self_host_ns=spent, self_device_ns=device, source="t"
        )

    old = changed(made(1), operators=[timed(4, 400, 800)], profiled_steps=2)
    new = changed(made(1), operators=[timed(3, 900, 1200), timed(3, 0, 0)], profiled_steps=3)
    [one] = compared(old, new).cells[0].operators
    assert (one.clock, one.old_calls, one.new_calls, one.old_ns, one.new_ns) == ("device", 2, 2, 400, 400)
    other = changed(new, operators=[timed(3, 900, None).model_copy(update={"operator": "aten::bmm"})])
    found = compared(old, other).cells[0].operators
    rows = [(one.operator, one.clock, one.presence, one.ratio) for one in found]
    assert rows == [("aten::bmm", "host", "new", None), ("aten::mm", "host", "gone", None)]


def test_a_new_fallback_is_a_regression_and_one_that_is_gone_is_not() -> None:
    def cost(name: str, method: Any = "predicted") -> FallbackCost:
        return FallbackCost(operator=name, calls=1, method=method, verdict="missing")

    old = changed(made(1), fallbacks=[cost("aten::a"), cost("aten::b")])
    new = changed(made(1), fallbacks=[cost("aten::b"), cost("aten::b", "observed"), cost("aten::c")])
    found = compared(old, new)
    rows = [(one.operator, one.presence, one.regression) for one in found.cells[0].fallbacks]
    assert rows == [("aten::c", "new", True), ("aten::a", "gone", False), ("aten::b", "both", False)]
    assert found.regressions == 1


def test_what_no_longer_runs_is_a_regression() -> None:
    failing = sample_profile_report()
    fine = failing.model_copy(update={"cells": [cell.model_copy(update={"failure": None}) for cell in failing.cells]})
    for old, new, regressions in ((fine, failing, 1), (failing, fine, 0), (failing, failing, 0)):
        assert compared(old, new).regressions == regressions


def test_what_has_no_partner_is_listed() -> None:
    old, new = sample_profile_report(), sample_profile_report()
    old = old.model_copy(update={"cells": old.cells[:1]})
    new = new.model_copy(update={"cells": [new.cells[0], new.cells[0], new.cells[2]]})
    found = compared(old, new)
    assert len(found.cells) == 1
    assert [(one.device, one.presence) for one in found.unpaired] == [("mps", "new"), ("cpu", "new")]
    assert [one.presence for one in compared(new, old).unpaired] == ["gone", "gone"]


def test_nothing_in_common_says_what_each_has() -> None:
    report = made(1)
    other = changed(report, dtype="bfloat16", workload="<other>\x1b")
    with pytest.raises(ReportError, match=re.escape("old.json has made-up training cpu; new.json has <other>\ufffd")):
        compared(report, other)
    with pytest.raises(ReportError, match=re.escape("new.json has none")):
        compared(report, report.model_copy(update={"cells": []}))


@pytest.mark.parametrize("spent", [0, HUGE])
def test_durations_that_no_clock_gives(spent: int) -> None:
    report = made(1)
    steps = [one.model_copy(update={"duration_ns": spent}) for one in report.cells[0].steps]
    odd = changed(report, steps=steps, first_call_ns=[-5, spent], phase_samples_ns={"forward": [-spent]})
    for pair in ((report, odd), (odd, report), (odd, odd)):
        found = compared(*pair)
        assert ComparisonReport.model_validate_json(found.model_dump_json()) == found


def test_another_machine_is_told() -> None:
    old, new = sample_profile_report(), sample_profile_report()
    assert new.environment is not None
    other = new.devices[0].model_copy(update={"name": "Apple M4", "capabilities": {}})
    update = {
        "devices": [other, new.devices[1]],
        "environment": new.environment.model_copy(update={"torch": "2.14.0"}),
        "plan": new.plan.model_copy(update={"compile": True}),
        "complete": True,
    }
    new = new.model_copy(update=update)
    found = {one.what: (one.old, one.new) for one in compared(old, new).conditions}
    assert found == {
        "device mps": ("Apple M3 Max", "Apple M4"),
        "mps macos": ("15.1", "not known"),
        "torch": ("2.13.0", "2.14.0"),
        "compile": ("no", "yes"),
        "measured to its end": ("no", "yes"),
    }
    imported = new.model_copy(update={"environment": None})
    found = {one.what: (one.old, one.new) for one in compared(old, imported).conditions}
    assert found["environment"][1] == "not known"


SOURCES = ("old.json", "new.json")


def scan(*found: tuple[str, Verdict], **more: Any) -> CoverageReport:
    operators = [
        OperatorFinding(operator=name, verdict=verdict, calls=1, phases={"forward": 1}, dtypes=["float32"])
        for name, verdict in found
    ]
    fields = {"operators": operators, "failure": None, "advisories": [], **more}
    return sample_coverage_report().model_copy(update=fields)


def changes(old: CoverageReport, new: CoverageReport) -> list[tuple[str, str, bool]]:
    return [(one.operator, one.change, one.regression) for one in compare_coverage(old, new, SOURCES).verdicts]


def test_verdicts_become_worse_and_better() -> None:
    old = scan(("a", "native"), ("b", "fallback"), ("c", "missing"), ("d", "native"), ("e", "missing"))
    new = scan(("a", "fallback"), ("b", "native"), ("c", "missing"), ("d", "unknown"), ("e", "unsupported"))
    worse = [(name, "worse", True) for name in "ade"]
    assert changes(old, new) == [*worse, ("b", "better", False)]
    found = compare_coverage(old, new, SOURCES)
    assert found.regressions == 3 and found.same_verdicts == 1


def test_of_several_verdicts_the_worst_counts() -> None:
    old = scan(("a", "native"), ("b", "native"))
    new = scan(("a", "native"), ("a", "unsupported"), ("b", "native"))
    assert changes(old, new) == [("a", "worse", True)]
    assert changes(new, old) == [("a", "better", False)]
    assert changes(scan(("a", "composite")), scan()) == []


def test_new_and_gone_operators() -> None:
    old, new = scan(("a", "missing")), scan(("b", "native"), ("c", "fallback"))
    assert changes(old, new) == [("c", "new", True), ("b", "new", False), ("a", "gone", False)]


def test_after_an_early_end_nothing_is_gone_or_new() -> None:
    failure = sample_coverage_report().failure
    whole = scan(("a", "native"), ("b", "native"), ("c", "missing"))
    stopped = scan(("a", "native"), failure=failure)
    assert changes(whole, stopped) == []
    found = compare_coverage(whole, stopped, SOURCES)
    assert found.regressions == 1 and found.failures[0].regression and "stopped" in found.notes[0]
    assert changes(stopped, whole) == [("c", "new", True)]  # a fallback is worth reporting anyway


def test_a_new_advisory_is_a_regression() -> None:
    known = sample_coverage_report().advisories
    found = compare_coverage(scan(), scan(advisories=known), SOURCES)
    assert [(one.id, one.presence, one.regression) for one in found.advisories] == [("attention-example", "new", True)]
    found = compare_coverage(scan(advisories=known), scan(), SOURCES)
    assert found.advisories[0].presence == "gone" and found.regressions == 0


def test_another_release_and_another_model_are_told() -> None:
    old = scan()
    workload = old.workload.model_copy(update={"name": "other", "parameters": 1})
    new = scan(workload=workload, target=old.target.model_copy(update={"torch": "2.14.0"}), method="observed")
    found = [one.what for one in compare_coverage(old, new, SOURCES).conditions]
    assert found == ["workload: name", "workload: parameters", "judged: torch", "method"]
    assert compare_coverage(old, old, SOURCES).conditions == []


def test_matrices_release_by_release() -> None:
    old = sample_matrix_report()
    assert compare_matrices(old, old, SOURCES).regressions == 0
    cells = [*old.releases[:2], old.releases[2].model_copy(update={"findings": {"aten::linear": "missing"}})]
    new = old.model_copy(update={"releases": cells[1:]})
    found = compare_matrices(old, new, SOURCES)
    rows = [(one.operator, one.release, one.old, one.new) for one in found.verdicts]
    assert rows == [("aten::linear", "2.14.0", "native", "missing")]
    assert found.regressions == 1 and found.notes == ["torch 1.12.0 is in the old report only"]
    assert found.same_verdicts == 3
    with pytest.raises(ReportError, match="no release in common"):
        compare_matrices(old, old.model_copy(update={"releases": []}), SOURCES)


def test_memory_is_compared_where_both_runs_ended() -> None:
    report = sample_coverage_report().model_copy(update={"failure": None})
    assert report.memory is not None
    more = report.model_copy(update={"memory": report.memory.model_copy(update={"peak_bytes": 3_000_000_000})})
    (found,) = compare_coverage(report, more, SOURCES).memory
    assert (found.release, found.old, found.new.peak_bytes) == (None, report.memory.figures(), 3_000_000_000)
    assert not compare_coverage(report, report, SOURCES).memory
    stopped = sample_coverage_report()
    assert stopped.failure and not compare_coverage(stopped, more, SOURCES).memory
