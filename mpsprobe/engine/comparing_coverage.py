"""Compares two coverage reports: operators whose verdict became worse or better, new ones, gone ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from mpsprobe.doubts import applying
from mpsprobe.engine.conditions import coverage_conditions, side
from mpsprobe.errors import ReportError
from mpsprobe.schemas import SEVERITY, CoverageReport, MatrixReport, RunFailure, Verdict
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
_ORDER = {"worse": 0, "new": 1, "better": 2, "gone": 3}
Report = CoverageReport | MatrixReport


class _Run(NamedTuple):
    verdicts: Mapping[str, Verdict]
    advisories: Iterable[str]
    failure: RunFailure | None
    memory: MemoryFigures | None


def compare_coverage(old: CoverageReport, new: CoverageReport, sources: tuple[str, str]) -> ComparisonReport:
    """What one release, or one version of a model, does worse or better than another."""
    return _compared(old, new, sources, [(None, _run(old), _run(new))])


def compare_matrices(old: MatrixReport, new: MatrixReport, sources: tuple[str, str]) -> ComparisonReport:
    """The same release by release."""
    olds = {cell.target.version: cell for cell in old.releases}
    shared = [(olds[cell.target.version], cell) for cell in new.releases if cell.target.version in olds]
    if not shared:
        raise ReportError("the matrices have no release in common", "Make both with the same --torch or --release.")
    pairs: list[tuple[str | None, _Run, _Run]] = []
    for cells in shared:
        # A cell lists what is not native; what it does not list is native there, or not called.
        native: dict[str, Verdict] = dict.fromkeys((name for cell in cells for name in cell.findings), "native")
        before, after = (_Run(native | cell.findings, cell.advisories, cell.failure, cell.memory) for cell in cells)
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
    old: Report, new: Report, sources: tuple[str, str], pairs: Iterable[tuple[str | None, _Run, _Run]]
) -> ComparisonReport:
    titles = {advisory.id: advisory.title for report in (old, new) for advisory in report.advisories}
    verdicts: list[ComparedVerdict] = []
    advisories: list[ComparedAdvisory] = []
    failures: list[ComparedFailure] = []
    memory: list[ComparedMemory] = []
    same = 0
    for release, before, after in pairs:
        changed, equal = _verdicts(before, after, release)
        verdicts += changed
        same += equal
        for name in dict.fromkeys([*before.advisories, *after.advisories]):
            gone, added = name not in after.advisories, name not in before.advisories
            if gone or added:
                presence: Presence = "gone" if gone else "new"
                title = titles.get(name, "")
                advisories.append(
                    ComparedAdvisory(id=name, title=title, release=release, presence=presence, regression=added)
                )
        if before.failure != after.failure:
            regression = before.failure is None
            failures.append(
                ComparedFailure(release=release, old=before.failure, new=after.failure, regression=regression)
            )
        # What a run that stopped needs is not known.
        if before.memory is not None and after.memory is not None and not (before.failure or after.failure):
            figures = before.memory.figures(), after.memory.figures()
            if figures[0] != figures[1]:
                memory.append(ComparedMemory(release=release, old=figures[0], new=figures[1]))
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
        regressions=sum(change.regression for changes in (verdicts, advisories, failures) for change in changes),
        notes=[_NOT_MET] if failures else [],
    )


def _run(report: CoverageReport) -> _Run:
    ascending = sorted(report.operators, key=lambda finding: SEVERITY[finding.verdict])
    worst = {finding.operator: finding.verdict for finding in ascending if finding.verdict != "composite"}
    return _Run(worst, [advisory.id for advisory in applying(report)], report.failure, report.memory)


def _verdicts(before: _Run, after: _Run, release: str | None) -> tuple[list[ComparedVerdict], int]:
    """The changes, regressions first, and how many operators are as they were."""
    changes, same = [], 0
    for name in dict.fromkeys([*after.verdicts, *before.verdicts]):
        old, new = before.verdicts.get(name), after.verdicts.get(name)
        change: Literal["worse", "new", "better", "gone"]
        if old == new:
            same += 1
            continue
        if old is None:
            if before.failure is not None and new == "native":  # nobody knows what the old run would have called
                continue
            change, regression = "new", new != "native"
        elif new is None:
            if after.failure is not None:
                continue
            change, regression = "gone", False
        else:
            regression = SEVERITY[new] > SEVERITY[old]
            change = "worse" if regression else "better"
        changes.append(
            ComparedVerdict(operator=name, release=release, old=old, new=new, change=change, regression=regression)
        )
    return sorted(changes, key=lambda change: (not change.regression, _ORDER[change.change], change.operator)), same
