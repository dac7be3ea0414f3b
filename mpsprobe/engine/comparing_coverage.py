"""Compares two coverage reports: operators whose verdict became worse or better, new ones, gone ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeVar

from mpsprobe.engine.conditions import coverage_conditions, side
from mpsprobe.errors import ReportError
from mpsprobe.schemas import SEVERITY, CoverageReport, MatrixReport, OperatorFinding, RunFailure, Verdict
from mpsprobe.schemas.comparison import (
    ComparedAdvisory,
    ComparedFailure,
    ComparedMemory,
    ComparedVerdict,
    ComparisonReport,
    Presence,
)
from mpsprobe.schemas.memory import MemoryFigures

_NOT_MET = "one of the runs stopped: operators after that are not compared"
Change = Literal["worse", "new", "better", "gone"]
Report = TypeVar("Report", CoverageReport, MatrixReport)


class _Side(NamedTuple):
    verdicts: Mapping[str, Verdict]
    advisories: Mapping[str, str]
    failure: RunFailure | None
    memory: MemoryFigures | None


def compare_coverage(old: CoverageReport, new: CoverageReport, sources: tuple[str, str]) -> ComparisonReport:
    """What one release, or one version of a model, does worse or better than another."""
    before, after = (_Side(_worst(one.operators), _titles(one), one.failure, one.memory) for one in (old, new))
    return _compared(old, new, sources, [(None, before, after)])


def compare_matrices(old: MatrixReport, new: MatrixReport, sources: tuple[str, str]) -> ComparisonReport:
    """The same release by release.

    Raises:
        ReportError: they have no release in common.
    """
    known = {cell.target.version: cell for cell in old.releases}
    shared = [(known[cell.target.version], cell) for cell in new.releases if cell.target.version in known]
    if not shared:
        raise ReportError("the matrices have no release in common", "Make both with the same --torch or --release.")
    titles = {**_titles(old), **_titles(new)}
    pairs = []
    for cells in shared:
        # A cell lists what is not native; what it does not list is native there, or not called.
        native: dict[str, Verdict] = dict.fromkeys((name for cell in cells for name in cell.findings), "native")
        before, after = (
            _Side({**native, **one.findings}, _named(one.advisories, titles), one.failure, one.memory) for one in cells
        )
        pairs.append((cells[1].target.version, before, after))
    report = _compared(old, new, sources, pairs)
    left = [
        f"{cell.target.software} {cell.target.version} is in the {which} report only"
        for which, every in (("old", old.releases), ("new", new.releases))
        for cell in every
        if cell.target.version not in {release for release, *_ in pairs}
    ]
    return report.model_copy(update={"notes": [*report.notes, *left]})


def _compared(
    old: Report, new: Report, sources: tuple[str, str], pairs: Iterable[tuple[str | None, _Side, _Side]]
) -> ComparisonReport:
    verdicts: list[ComparedVerdict] = []
    advisories: list[ComparedAdvisory] = []
    failures: list[ComparedFailure] = []
    memory: list[ComparedMemory] = []
    same = 0
    for release, before, after in pairs:
        ended = before.failure is not None, after.failure is not None
        changed, equal = _verdicts(before.verdicts, after.verdicts, release, *ended)
        verdicts += changed
        same += equal
        advisories += _advisories(before.advisories, after.advisories, release)
        failures += _failures(release, before.failure, after.failure)
        memory += _memory(release, before, after)
    return ComparisonReport(
        compares=new.kind,
        old=side(old, sources[0]),
        new=side(new, sources[1]),
        conditions=coverage_conditions(old, new),
        verdicts=verdicts,
        advisories=advisories,
        failures=failures,
        memory=memory,
        same_verdicts=same,
        regressions=sum(one.regression for part in (verdicts, advisories, failures) for one in part),
        notes=[_NOT_MET] if failures else [],
    )


def _worst(findings: Iterable[OperatorFinding]) -> dict[str, Verdict]:
    ascending = sorted(findings, key=lambda finding: SEVERITY[finding.verdict])
    return {finding.operator: finding.verdict for finding in ascending if finding.verdict != "composite"}


def _verdicts(
    olds: Mapping[str, Verdict], news: Mapping[str, Verdict], release: str | None, old_ended: bool, new_ended: bool
) -> tuple[list[ComparedVerdict], int]:
    """The changes, regressions first, and how many operators are as they were."""
    found, same = [], 0
    for name in dict.fromkeys([*news, *olds]):
        old, new = olds.get(name), news.get(name)
        if old == new:
            same += 1
            continue
        change: Change
        if old is None:
            if old_ended and new == "native":  # after an early end of the old run nobody knows whether it is new
                continue
            change, regression = "new", new != "native"
        elif new is None:
            if new_ended:
                continue
            change, regression = "gone", False
        else:
            regression = SEVERITY[new] > SEVERITY[old]
            change = "worse" if regression else "better"
        found.append(
            ComparedVerdict(operator=name, release=release, old=old, new=new, change=change, regression=regression)
        )
    order = {"worse": 0, "new": 1, "better": 2, "gone": 3}
    return sorted(found, key=lambda one: (not one.regression, order[one.change], one.operator)), same


def _titles(report: CoverageReport | MatrixReport) -> dict[str, str]:
    return {one.id: one.title for one in report.advisories}


def _named(advisories: Iterable[str], titles: Mapping[str, str]) -> dict[str, str]:
    return {name: titles.get(name, "") for name in advisories}


def _advisories(olds: Mapping[str, str], news: Mapping[str, str], release: str | None) -> list[ComparedAdvisory]:
    found = []
    for name, title in {**olds, **news}.items():
        if (name in olds) != (name in news):
            presence: Presence = "new" if name in news else "gone"
            found.append(
                ComparedAdvisory(id=name, title=title, release=release, presence=presence, regression=name in news)
            )
    return found


def _failures(release: str | None, old: RunFailure | None, new: RunFailure | None) -> list[ComparedFailure]:
    if old == new:
        return []
    return [ComparedFailure(release=release, old=old, new=new, regression=old is None)]


def _memory(release: str | None, before: _Side, after: _Side) -> list[ComparedMemory]:
    """Of two runs that ended; what one needs that stopped is not known."""
    if before.memory is None or after.memory is None or before.failure or after.failure:
        return []
    old, new = before.memory.figures(), after.memory.figures()
    return [] if old == new else [ComparedMemory(release=release, old=old, new=new)]
