"""What changes for MPS from one torch release to another, by kernel tables and advisories; torch is not needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.version import Version

from mpsprobe.environment import collect_environment
from mpsprobe.protocols import MacOptions
from mpsprobe.schemas import (
    ChangedAdvisory,
    ChangedKernel,
    JudgedWorkload,
    MatrixReport,
    Target,
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
    """What ``new`` does otherwise than ``old``.

    Args:
        workloads: with a matrix of the two releases each, or with why there is none.
        mac: that one has, where advisories depend on it.
    """
    macos, chip = mac.macos, mac.chip
    changes = _Changes()
    libraries = {}
    for before, after in _pairs(old, new):
        changes.add(before, after)
        if before.library != old.library:
            libraries[before.library] = [before.release, after.release]
    sparse = tensor_keys(new.backend.key)[1:]
    had, has = ({name for key in sparse for name in one.keys.get(key, ())} for one in (old, new))
    wrong = [one for one in all_advisories() if chip is None or one.concerns(chip)]
    before_wrong, after_wrong = (
        {one.id for one in wrong if one.affects(table.release, table.macos_minimum, macos)} for table in (old, new)
    )
    return UpgradeReport(
        old=_target(old, macos),
        new=_target(new, macos),
        environment=collect_environment(),
        libraries=libraries,
        gained=changes.gained,
        added=changes.added,
        own=changes.own,
        lost=changes.lost,
        removed=changes.removed,
        sparse_gained=sorted(has - had),
        sparse_lost=sorted(name for name in had - has if name in new.operators),
        fixed=[_changed(one, new, macos) for one in wrong if one.id in before_wrong - after_wrong],
        introduced=[_changed(one, old, macos) for one in wrong if one.id in after_wrong - before_wrong],
        remaining=sorted(before_wrong & after_wrong),
        workloads=[_upgraded(one, old.release, new.release) for one in workloads],
    )


class _Changes:
    """The operators whose registrations changed, by what that means."""

    def __init__(self) -> None:
        self.gained: list[ChangedKernel] = []
        self.lost: list[ChangedKernel] = []
        self.added: list[str] = []
        self.own: list[str] = []
        self.removed: list[str] = []

    def add(self, old: KernelTable, new: KernelTable) -> None:
        """Those of one library. What cannot be said for certain is in none of the lists.

        A composite operator works for certain only where all that it is made of is known and has a kernel.
        """
        renamed = {*renames(old).values()}
        for operator in sorted(old.operators | new.operators):
            before, after = old.verdict(operator), new.verdict(operator)
            change = ChangedKernel.model_construct(operator=operator, old=before, new=after)
            if before == after or operator in renamed:
                continue
            if after == UNKNOWN:
                self.removed += [operator] if _works(old, operator) else []
            elif before == UNKNOWN:
                self.added += [operator] if after == NATIVE else []
            elif before in (NATIVE, COMPOSITE) and after in (NATIVE, COMPOSITE):
                self.own += [operator] if after == NATIVE else []
            elif _works(new, operator):
                self.gained.append(change)
            elif after != COMPOSITE and _works(old, operator):
                self.lost.append(change)


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


def _target(table: KernelTable, macos: str | None) -> Target:
    target = table.family.report_target(table, macos)
    assert isinstance(target, Target)  # only a backend of another framework has another
    return target


def _changed(advisory: Advisory, without: KernelTable, macos: str | None) -> ChangedAdvisory:
    return ChangedAdvisory(
        id=advisory.id,
        title=advisory.title,
        operators=list(advisory.operators),
        torch=advisory.torch,
        macos=advisory.macos,
        hardware=advisory.where,
        workaround=advisory.workaround,
        established=_is_established(advisory, without, macos),
    )


def _is_established(advisory: Advisory, without: KernelTable, macos: str | None) -> bool:
    """Whether a source says that the release of ``without`` does not have it: it is fixed there, or began later."""
    release, affected = Version(without.release), advisory.torch
    if affected.fixed is not None and release >= Version(affected.fixed):
        return True
    if affected.since is not None and release < Version(affected.since):
        return True
    asked, cured = macos or without.macos_minimum, advisory.macos.fixed
    return asked is not None and cured is not None and Version(asked) >= Version(cured)


def _upgraded(one: JudgedWorkload, old: str, new: str) -> UpgradedWorkload:
    cells = {cell.target.version: cell for cell in one.report.releases} if isinstance(one.report, MatrixReport) else {}
    return UpgradedWorkload.model_validate(
        {
            "name": one.name,
            "workload": one.report and one.report.workload,
            "old": cells.get(old),
            "new": cells.get(new),
            "error": one.error,
            "hint": one.hint,
        }
    )
