"""Each clause of the contract for scanners can be broken, and a sound scanner breaks none."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

import pytest
from sound_objects import Scans

from mpsprobe.declarations import ScannerDeclaration
from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe.protocols import Progress, RunOptions, Workload
from mpsprobe.schemas import CoverageReport, RunFailure
from mpsprobe_devkit.testing import FakeWorkload
from mpsprobe_devkit.testing.contracts.scanner import SCANNER, ScannerSubject
from mpsprobe_devkit.testing.contracts.subjects import given


def broken(scanner: Any, frameworks: Any = ("torch",), workloads: Any = None) -> dict[str, str]:
    """The clauses that it breaks, with what is said."""
    declaration = ScannerDeclaration("fake", "x:y", "under test", frameworks)
    subject = ScannerSubject(declaration, given(scanner), workloads or {})
    return {one.clause: one.problem for one in SCANNER.broken(subject)}


def test_a_sound_one_breaks_nothing() -> None:
    assert broken(Scans) == {}
    assert broken(Scans, ("fake",), {"fake": FakeWorkload()}) == {}


class NoScanner:
    pass


class Changed(Scans):
    """Changes the report of its parent."""

    def report(self, workload: Workload, options: RunOptions, failure: RunFailure | None) -> Any:
        return self.change(super().report(workload, options, failure))

    def change(self, report: CoverageReport) -> Any:
        raise NotImplementedError


class GivesText(Changed):
    def change(self, report: CoverageReport) -> Any:
        return report.model_dump_json()


class NamesNobody(Changed):
    def change(self, report: CoverageReport) -> Any:
        return report.model_copy(update={"workload": report.workload.model_copy(update={"name": "?"})})


class OnePhase(Changed):
    def change(self, report: CoverageReport) -> Any:
        return report.model_copy(update={"workload": report.workload.model_copy(update={"phase": "inference"})})


class Miscounts(Changed):
    def change(self, report: CoverageReport) -> Any:
        return report.model_copy(update={"summary": report.summary.model_copy(update={"calls": 3})})


class LosesPhases(Changed):
    def change(self, report: CoverageReport) -> Any:
        [one] = report.operators
        return report.model_copy(update={"operators": [one.model_copy(update={"phases": {"forward": 1}})]})


class DoesNotReadBack(Changed):
    def change(self, report: CoverageReport) -> Any:
        return report.model_copy(update={"method": "guessed"})


class Numbers(Changed):
    counted = itertools.count()

    def change(self, report: CoverageReport) -> Any:
        return report.model_copy(update={"started": next(self.counted)})


class NeverStops(Scans):
    def scan(self, workload: Workload, options: RunOptions, torch_releases: Sequence[str], progress: Progress) -> Any:
        report = super().scan(workload, options, torch_releases, progress)
        progress.start(1, "more")
        return report


class StopsOnlyIfAllGoesWell(Scans):
    def scan(self, workload: Workload, options: RunOptions, torch_releases: Sequence[str], progress: Progress) -> Any:
        self.check(torch_releases)
        progress.start(None, "building")
        run = self.built(workload, options)
        progress.stop()
        return self.report(workload, options, self.failure(run))


class AdvancesFirst(Scans):
    def scan(self, workload: Workload, options: RunOptions, torch_releases: Sequence[str], progress: Progress) -> Any:
        self.check(torch_releases)
        progress.advance("looking")
        return super().scan(workload, options, torch_releases, progress)


class AnyRelease(Scans):
    def check(self, releases: Sequence[str]) -> None:
        if not releases:
            super().check(releases)


class NoReleaseWillDo(Scans):
    def check(self, releases: Sequence[str]) -> None:
        if releases:
            super().check(releases)


class LooksUp(Scans):
    def check(self, releases: Sequence[str]) -> None:
        assert {"latest": 1}[releases[0]]


class Evasive(Scans):
    def check(self, releases: Sequence[str]) -> None:
        if list(releases) != ["latest"] * len(releases) or not releases:
            raise UsageError("there is no such release")


class Wraps(Scans):
    def built(self, workload: Workload, options: RunOptions) -> Any:
        try:
            return super().built(workload, options)
        except MpsprobeError as error:
            raise RuntimeError("it failed") from error


class Shrugs(Scans):
    def built(self, workload: Workload, options: RunOptions) -> Any:
        try:
            return super().built(workload, options)
        except MpsprobeError:
            return None


class LetsItRaise(Scans):
    def failure(self, run: Any) -> RunFailure | None:
        run.model(*run.args)
        return None


class HidesTheFailure(Scans):
    def failure(self, run: Any) -> RunFailure | None:
        del run
        return None


class SetsVariables(Scans):
    def built(self, workload: Workload, options: RunOptions) -> Any:
        os.environ["MADE_BY_A_TEST"] = str(len(os.environ.get("MADE_BY_A_TEST", "")) * "x" + "x")
        return super().built(workload, options)


CASES: list[tuple[Any, str, str]] = [
    (NoScanner, "is_what_it_declares", "no method scan"),
    (GivesText, "makes_a_report", "a str, not a report"),
    (NamesNobody, "makes_a_report", "names '?' and not 'tiny'"),
    (OnePhase, "makes_a_report", "it was asked for training"),
    (Miscounts, "makes_a_report", "counts 3 calls, its operators 2"),
    (LosesPhases, "makes_a_report", "has 2 calls, its phases 1"),
    (DoesNotReadBack, "makes_a_report", "reading its report back from JSON raised"),
    (Numbers, "is_the_same_twice", "another 'started'"),
    (NeverStops, "ends_its_progress", "does not stop it"),
    (StopsOnlyIfAllGoesWell, "ends_its_progress", "scanning what cannot be built"),
    (AdvancesFirst, "ends_its_progress", "has not started"),
    (AnyRelease, "says_what_release_it_does_not_know", "it gives a report"),
    (NoReleaseWillDo, "says_what_release_it_does_not_know", "no release at all it gives a report"),
    (LooksUp, "says_what_release_it_does_not_know", "raised KeyError"),
    (Evasive, "says_what_release_it_does_not_know", "does not name it"),
    (Wraps, "passes_errors_on", "RuntimeError"),
    (Shrugs, "passes_errors_on", "could not be built"),
    (LetsItRaise, "reports_a_model_that_raises", "ValueError: it broke"),
    (HidesTheFailure, "reports_a_model_that_raises", "has no failure"),
    (SetsVariables, "leaves_the_process_alone", "the variable MADE_BY_A_TEST"),
]


@pytest.mark.parametrize(("scanner", "clause", "says"), CASES, ids=lambda one: getattr(one, "__name__", None))
def test_each_clause_can_be_broken(scanner: Any, clause: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADE_BY_A_TEST", "")
    found = broken(scanner)
    assert set(found) == {clause} and says in found[clause], found


def test_a_framework_needs_a_workload() -> None:
    assert "give a workload of 'jax'" in broken(Scans, ("torch", "jax"))["is_what_it_declares"]
    assert "its frameworks are 'torch'" in broken(Scans, "torch")["is_what_it_declares"]
