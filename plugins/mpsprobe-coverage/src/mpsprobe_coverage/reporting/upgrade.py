"""What changes for MPS from one torch release to another, by kernel tables and advisories; torch is not needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from packaging.version import Version

from mpsprobe.environment import collect_environment
from mpsprobe.protocols import MacOptions
from mpsprobe.schemas import (
    ChangedAdvisory,
    ChangedKernel,
    JudgedWorkload,
    MatrixReport,
    UpgradedWorkload,
    UpgradeReport,
)
from mpsprobe_coverage.knowledge.advisories.model import Advisory
from mpsprobe_coverage.knowledge.advisories.store import all_advisories
from mpsprobe_coverage.knowledge.judging.renames import renames
from mpsprobe_coverage.knowledge.kernels.table import COMPOSITE, NATIVE, UNKNOWN, KernelTable, tensor_keys


def upgrade_report(
    old: KernelTable, new: KernelTable, workloads: Iterable[JudgedWorkload], mac: MacOptions
) -> UpgradeReport:
    """What ``new`` does otherwise than ``old``, on ``mac`` where advisories depend on it.

    ``workloads`` have a matrix of the two releases each, or why there is none.
    """
    macos, chip = mac.macos, mac.chip
    changes: dict[str, Any] = {field: [] for field in ("gained", "added", "own", "lost", "removed")}
    pairs = [*_pairs(old, new)]
    for before, after in pairs:
        for field, change in _changes(before, after):
            changes[field].append(change)
    targets: dict[str, Any] = {"old": old.family.report_target(old, macos), "new": new.family.report_target(new, macos)}
    sparse = tensor_keys(new.backend.key)[1:]
    had, has = ({name for key in sparse for name in table.keys.get(key, ())} for table in (old, new))
    wrong = [advisory for advisory in all_advisories() if chip is None or advisory.concerns(chip)]
    before_wrong, after_wrong = (
        {advisory.id for advisory in wrong if advisory.affects(table.release, table.macos_minimum, macos)}
        for table in (old, new)
    )
    return UpgradeReport(
        **targets,
        environment=collect_environment(),
        libraries={before.library: [before.release, after.release] for before, after in pairs[1:]},
        **changes,
        sparse_gained=sorted(has - had),
        sparse_lost=sorted(name for name in had - has if name in new.operators),
        fixed=[_changed(advisory, new, macos) for advisory in wrong if advisory.id in before_wrong - after_wrong],
        introduced=[_changed(advisory, old, macos) for advisory in wrong if advisory.id in after_wrong - before_wrong],
        remaining=sorted(before_wrong & after_wrong),
        workloads=[_upgraded(workload, old.release, new.release) for workload in workloads],
    )


def _changes(old: KernelTable, new: KernelTable) -> Iterator[tuple[str, str | ChangedKernel]]:
    """The operators of one library whose registrations changed, each with the field of the report for such changes.

    What cannot be said for certain is in none: a composite operator works for certain only where all that it is made
    of is known and has a kernel.
    """
    renamed = {*renames(old).values()}
    for operator in sorted(old.operators | new.operators):
        before, after = old.verdict(operator), new.verdict(operator)
        if before == after or operator in renamed:
            continue
        change = ChangedKernel.model_construct(operator=operator, old=before, new=after)
        if after == UNKNOWN:
            if _works(old, operator):
                yield "removed", operator
        elif before == UNKNOWN or {before, after} <= {NATIVE, COMPOSITE}:
            if after == NATIVE:
                yield "added" if before == UNKNOWN else "own", operator
        elif _works(new, operator):
            yield "gained", change
        elif after != COMPOSITE and _works(old, operator):
            yield "lost", change


def _works(table: KernelTable, operator: str) -> bool:
    verdict = table.verdict(operator)
    if verdict != COMPOSITE or table.library != "torch":  # what those of other libraries call is not known
        return verdict == NATIVE
    return table.family.is_made_of_native(operator, table.release)


def _pairs(old: KernelTable, new: KernelTable) -> Iterator[tuple[KernelTable, KernelTable]]:
    """The tables of torch, and those of each further library that both releases have."""
    yield old, new
    for name in old.family.libraries:
        before, after = old.family.library(name, old.release), new.family.library(name, new.release)
        if before is not None and after is not None:
            yield before, after


def _changed(advisory: Advisory, without: KernelTable, macos: str | None) -> ChangedAdvisory:
    same: dict[str, Any] = advisory.model_dump(include=set(ChangedAdvisory.model_fields))
    own = {"hardware": advisory.where, "established": _is_established(advisory, without, macos)}
    return ChangedAdvisory(**same | own)


def _is_established(advisory: Advisory, without: KernelTable, macos: str | None) -> bool:
    """Whether a source says that the release of ``without`` does not have it: it is fixed there, or began later."""
    release, affected = Version(without.release), advisory.torch
    if affected.fixed is not None and release >= Version(affected.fixed):
        return True
    if affected.since is not None and release < Version(affected.since):
        return True
    asked, cured = macos or without.macos_minimum, advisory.macos.fixed
    return asked is not None and cured is not None and Version(asked) >= Version(cured)


def _upgraded(workload: JudgedWorkload, old: str, new: str) -> UpgradedWorkload:
    report = workload.report
    cells = {cell.target.version: cell for cell in report.releases} if isinstance(report, MatrixReport) else {}
    return UpgradedWorkload(
        name=workload.name,
        workload=report.workload if report else None,
        old=cells.get(old),
        new=cells.get(new),
        error=workload.error,
        hint=workload.hint,
    )
