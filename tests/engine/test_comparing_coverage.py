"""What a newer release, or a changed model, makes worse or better."""

from __future__ import annotations

from typing import Any

import pytest

from mpsprobe.engine.comparing_coverage import compare_coverage, compare_matrices
from mpsprobe.errors import ReportError
from mpsprobe.schemas import CoverageReport, OperatorFinding, Verdict
from mpsprobe_devkit.testing import sample_coverage_report, sample_matrix_report

SOURCES = ("old.json", "new.json")


def report(*found: tuple[str, Verdict], **more: Any) -> CoverageReport:
    operators = [
        OperatorFinding(operator=name, verdict=verdict, calls=1, phases={"forward": 1}, dtypes=["float32"])
        for name, verdict in found
    ]
    fields = {"operators": operators, "failure": None, "advisories": [], **more}
    return sample_coverage_report().model_copy(update=fields)


def changes(old: CoverageReport, new: CoverageReport) -> list[tuple[str, str, bool]]:
    return [(one.operator, one.change, one.regression) for one in compare_coverage(old, new, SOURCES).verdicts]


def test_verdicts_become_worse_and_better() -> None:
    old = report(("a", "native"), ("b", "fallback"), ("c", "missing"), ("d", "native"), ("e", "missing"))
    new = report(("a", "fallback"), ("b", "native"), ("c", "missing"), ("d", "unknown"), ("e", "unsupported"))
    worse = [(name, "worse", True) for name in "ade"]
    assert changes(old, new) == [*worse, ("b", "better", False)]
    found = compare_coverage(old, new, SOURCES)
    assert found.regressions == 3 and found.same_verdicts == 1


def test_of_several_verdicts_the_worst_counts() -> None:
    old, new = report(("a", "native"), ("b", "native")), report(("a", "native"), ("a", "unsupported"), ("b", "native"))
    assert changes(old, new) == [("a", "worse", True)]
    assert changes(new, old) == [("a", "better", False)]
    assert changes(report(("a", "composite")), report()) == []


def test_new_and_gone_operators() -> None:
    old, new = report(("a", "missing")), report(("b", "native"), ("c", "fallback"))
    assert changes(old, new) == [("c", "new", True), ("b", "new", False), ("a", "gone", False)]


def test_after_an_early_end_nothing_is_gone_or_new() -> None:
    failure = sample_coverage_report().failure
    whole = report(("a", "native"), ("b", "native"), ("c", "missing"))
    stopped = report(("a", "native"), failure=failure)
    assert changes(whole, stopped) == []
    found = compare_coverage(whole, stopped, SOURCES)
    assert found.regressions == 1 and found.failures[0].regression and "stopped" in found.notes[0]
    assert changes(stopped, whole) == [("c", "new", True)]  # a fallback is worth reporting anyway


def test_a_new_advisory_is_a_regression() -> None:
    known = sample_coverage_report().advisories
    found = compare_coverage(report(), report(advisories=known), SOURCES)
    assert [(one.id, one.presence, one.regression) for one in found.advisories] == [("attention-example", "new", True)]
    found = compare_coverage(report(advisories=known), report(), SOURCES)
    assert found.advisories[0].presence == "gone" and found.regressions == 0


def test_another_release_and_another_model_are_told() -> None:
    old = report()
    workload = old.workload.model_copy(update={"name": "other", "parameters": 1})
    new = report(workload=workload, target=old.target.model_copy(update={"torch": "2.14.0"}), method="observed")
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
