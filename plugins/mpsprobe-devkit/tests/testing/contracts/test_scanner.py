"""Each clause of the contract for scanners can be broken, and a sound scanner breaks none."""

from __future__ import annotations

import itertools
import os
from typing import Any

import pytest

from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import OperatorFinding, RunFailure
from mpsprobe_devkit.testing import FakeWorkload, sample_coverage_report, scanner_contract

ONE = OperatorFinding.model_validate(
    {"operator": "aten::linear", "verdict": "native", "calls": 2, "phases": {"forward": 2}, "dtypes": []}
)


class Scans:
    """A sound scanner: it builds the workload, steps it, and reports one operator."""

    def scan(self, workload: Any, options: RunOptions, torch_releases: Any, progress: Any) -> Any:
        self.check(torch_releases)
        progress.start(len(torch_releases), workload.name)
        try:
            run = self.built(workload, options)
            progress.advance()
        finally:
            progress.stop()
        sample = sample_coverage_report()
        info = sample.workload.model_copy(update={"name": workload.name, "phase": options.phase})
        summary = sample.summary.model_copy(update={"calls": 2, "operators": 1})
        update = {"workload": info, "operators": [ONE], "summary": summary, "failure": self.failure(run)}
        return self.changed(sample.model_copy(update=update))

    def check(self, releases: Any) -> None:
        if not releases:
            raise UsageError("no release to judge")
        for release in releases:
            if release != "latest":
                raise UsageError(f"there is no release '{release}'")

    def built(self, workload: Any, options: RunOptions) -> Any:
        return workload.build(options)

    def failure(self, run: Any) -> RunFailure | None:
        if hasattr(run, "model"):
            try:
                run.model(*run.args)
            except ValueError as error:
                return RunFailure(phase="forward", error="ValueError", message=str(error))
        return None

    def changed(self, report: Any) -> Any:
        return report


def broken(scanner: Any, frameworks: Any = ("torch",), workloads: Any = None) -> dict[str, str]:
    """The clauses that it breaks, with what is said."""
    suite: Any = scanner_contract(scanner, frameworks=frameworks, workloads=workloads)
    return {one.clause: one.problem for one in suite.broken()}


def of(**methods: Any) -> type:
    """A sound one, but for these methods."""
    return type("Changed", (Scans,), methods)


def report(**update: Any) -> type:
    """A sound one, but for these fields of its report."""
    return of(changed=lambda self, report: report.model_copy(update=update))


def about(**update: Any) -> type:
    """The same, of the workload in it."""

    def changed(self: Any, report: Any) -> Any:
        return report.model_copy(update={"workload": report.workload.model_copy(update=update)})

    return of(changed=changed)


def test_a_sound_one_breaks_nothing() -> None:
    assert broken(Scans) == {}
    assert broken(Scans, ("fake",), {"fake": FakeWorkload()}) == {}


def _never_stopping(self: Any, workload: Any, options: Any, releases: Any, progress: Any) -> Any:
    found = Scans.scan(self, workload, options, releases, progress)
    progress.start(1, "more")
    return found


def _advancing_first(self: Any, workload: Any, options: Any, releases: Any, progress: Any) -> Any:
    progress.advance("looking")
    return Scans.scan(self, workload, options, releases, progress)


def _starting_first(self: Any, workload: Any, options: Any, releases: Any, progress: Any) -> Any:
    progress.start(None, "building")
    found = Scans.scan(self, workload, options, releases, type(progress)())
    progress.stop()
    return found


def _evasive(self: Any, releases: Any) -> None:
    if list(releases) != ["latest"] * len(releases) or not releases:
        raise UsageError("there is no such release")


def _wrapping(self: Any, workload: Any, options: RunOptions) -> Any:
    try:
        return workload.build(options)
    except MpsprobeError as error:
        raise RuntimeError("it failed") from error


def _shrugging(self: Any, workload: Any, options: RunOptions) -> Any:
    try:
        return workload.build(options)
    except MpsprobeError:
        return None


def _setting(self: Any, workload: Any, options: RunOptions) -> Any:
    os.environ["MADE_BY_A_TEST"] = os.environ.get("MADE_BY_A_TEST", "") + "x"
    return workload.build(options)


counted = itertools.count()
CASES: list[tuple[str, str, type]] = [
    ("is_what_it_declares", "which has no 'scan'", type("NoScanner", (), {})),
    ("makes_a_report", "a str, not a report", of(changed=lambda self, report: report.model_dump_json())),
    ("makes_a_report", "is on '?' for inference, and", about(name="?")),
    ("makes_a_report", "it was asked for 'tiny' for training", about(phase="inference")),
    (
        "makes_a_report",
        "counts 77 calls, its operators 2",
        report(summary=sample_coverage_report().summary),
    ),
    (
        "makes_a_report",
        "the calls of 'aten::linear' are not those of its phases",
        report(operators=[ONE.model_copy(update={"phases": {"forward": 1}})]),
    ),
    ("makes_a_report", "ReportError: report is damaged", report(method="guessed")),
    (
        "is_the_same_twice",
        "another 'started'",
        of(changed=lambda self, report: report.model_copy(update={"started": next(counted)})),
    ),
    ("ends_its_progress", "does not stop it", of(scan=_never_stopping)),
    ("ends_its_progress", "scanning 'cannot-be-built'", of(scan=_starting_first)),
    ("ends_its_progress", "has not started", of(scan=_advancing_first)),
    ("says_what_release_it_does_not_know", "it gives 'a report", of(check=lambda self, releases: None)),
    (
        "says_what_release_it_does_not_know",
        "it gives KeyError",
        of(check=lambda self, releases: {"latest": 1}[releases[0]]),
    ),
    ("says_what_release_it_does_not_know", "it gives UsageError", of(check=_evasive)),
    ("passes_errors_on", "RuntimeError", of(built=_wrapping)),
    ("passes_errors_on", "gives 'a report", of(built=_shrugging)),
    (
        "reports_a_model_that_raises",
        "ValueError: it broke",
        of(failure=lambda self, run: [run.model(*run.args), None][1]),
    ),
    ("reports_a_model_that_raises", "has no failure", of(failure=lambda self, run: None)),
    ("leaves_the_process_alone", "the variable MADE_BY_A_TEST", of(built=_setting)),
]


@pytest.mark.parametrize(("clause", "says", "scanner"), CASES)
def test_each_clause_can_be_broken(clause: str, says: str, scanner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADE_BY_A_TEST", "")
    found = broken(scanner)
    assert set(found) == {clause} and says in found[clause], found


def test_a_framework_needs_a_workload() -> None:
    assert "give a workload of 'jax'" in broken(Scans, ("torch", "jax"))["is_what_it_declares"]
    assert "its frameworks are ('',)" in broken(Scans, ("",))["is_what_it_declares"]
