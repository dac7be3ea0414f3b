"""From one torch release to another: what breaks first, then what gets better, then each workload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from mpsprobe.declarations import SEVERITY
from mpsprobe_exporters import advisories, answer
from mpsprobe_exporters.document import Block, Column, Document, Paragraph, Section, Table, Tile, Tiles, bullets, table
from mpsprobe_exporters.plain_text import one_line, plural
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from mpsprobe.schemas import ChangedAdvisory, ChangedKernel, MatrixCell, UpgradedWorkload, UpgradeReport, Verdict
    from mpsprobe_exporters.document import Cell, Fields

MOST = 12  # operators that a terminal shows of a list
NATIVE = "native, or not called"
BY_TABLES = (
    "Operators are compared by what the releases register: a single call can still be refused or left to the CPU. Name "
    "workloads to have their calls judged"
)
MAY_HAVE_IT = "the old release may have it too: nobody has said so, or the contrary"

KERNELS: Fields[None, ChangedKernel] = (
    (Column("operator", "name"), lambda _, kernel: kernel.operator),
    (Column("before", "verdict"), lambda _, kernel: kernel.old),
    (Column("now", "verdict"), lambda _, kernel: kernel.new),
)
ADVISORIES: Fields[None, ChangedAdvisory] = (
    (Column("advisory", "name"), lambda _, advisory: advisory.id),
    (Column("what"), lambda _, advisory: advisory.title),
    (Column("do", "advice"), lambda _, advisory: advisory.workaround),
    (Column("operators", "names"), lambda _, advisory: tuple(advisory.operators)),
    (Column("torch"), lambda _, advisory: advisories.releases(advisory.torch, brief=True)),
    (Column("macOS"), lambda _, advisory: advisories.systems(advisory.macos)),
    (Column("hardware"), lambda _, advisory: advisory.hardware),
    (Column("known"), lambda _, advisory: None if advisory.established else MAY_HAVE_IT),
)
# Of what is fixed nobody has to do anything.
FIXED = tuple(field for field in ADVISORIES if field[0].title != "do" and field[0].title != "known")


def document(report: UpgradeReport) -> Document:
    old, new = _releases(report)
    bad = bool(report.lost or report.introduced or any(map(is_worse, report.workloads)))
    changes = [change for workload in report.workloads for change in changes_of(workload)]
    counts = {
        "Run on the GPU now": (len(report.gained) + len(report.added), "operators"),
        "Kernel of their own now": (len(report.own), "operators"),
        "Lost": (len(report.lost), "operators"),
        "Wrong results fixed": (len(report.fixed), f"{number(len(report.introduced))} new"),
    }
    tiles = [Tile(title, number(count), below) for title, (count, below) in counts.items()]
    errors = [workload for workload in report.workloads if workload.error is not None]
    return Document(
        title=f"torch {old} to {new}",
        headline=headline(report),
        tone="bad" if bad else "good",
        alerts=list(_alerts(report)),
        lines=list(_lines(report)),
        notes=[BY_TABLES],
        sections=[
            Section("Your workloads", list(_workloads(report)), depth="lead"),
            Section("Could not be judged", table(ERRORS, None, errors, entries=True), depth="lead"),
            Section("Operators of your workloads that change", table(CHANGES, None, changes), depth="lead"),
            Section("In figures", [Tiles(tiles)], depth="page"),
            Section("What breaks", list(_breaks(report)), depth="lead"),
            Section(
                f"Wrong results known of {new}, not of {old}", table(ADVISORIES, None, report.introduced, entries=True)
            ),
            Section(f"Wrong results known of {old}, not of {new}", table(FIXED, None, report.fixed, entries=True)),
            Section(
                "Run on the GPU now",
                table(KERNELS, None, _public_first(report.gained), "Operators", filtered=True, most=MOST),
            ),
            *_further(report),
        ],
    )


def headline(report: UpgradeReport) -> str:
    """``torch 2.6.0 → 2.15.0: 150 operators gained, 0 lost, 4 known wrong results fixed, 1 new; …``."""
    old, new = _releases(report)
    gained = len(report.gained) + len(report.added)
    parts = [f"{plural(gained, 'operator')} gained", f"{number(len(report.lost))} lost"]
    fixed, new_ones = (sum(one.established for one in changes) for changes in (report.fixed, report.introduced))
    parts += [f"{plural(fixed, 'known wrong result')} fixed", f"{number(new_ones)} new"]
    if maybe := len(report.introduced) - new_ones:
        parts.append(f"{number(maybe)} that {old} may have too")
    needs = f"; it needs macOS {_newer_macos(report)}" if _newer_macos(report) else ""
    return f"torch {old} → {new}: {', '.join(parts)}{needs}"


def _releases(report: UpgradeReport) -> tuple[str, str]:
    return one_line(report.old.torch, 40), one_line(report.new.torch, 40)


def _alerts(report: UpgradeReport) -> Iterator[str]:
    asked, needed = report.new.macos, report.new.macos_minimum
    if asked and needed and answer.release_key(asked) < answer.release_key(needed):
        on = f"macOS {one_line(asked)}: it needs {one_line(needed)}"
        yield f"torch {_releases(report)[1]} does not use the GPU on {on}"
    worse = [one_line(workload.name, 60) for workload in report.workloads if is_worse(workload)]
    if worse:
        yield f"{plural(len(worse), 'workload')} would be worse off: {', '.join(worse[:5])}{', …' if worse[5:] else ''}"


def _newer_macos(report: UpgradeReport) -> str:
    """The oldest macOS of the new release, where it is later than that of the old one; else empty."""
    old, new = report.old.macos_minimum, report.new.macos_minimum
    return one_line(new) if old and new and answer.is_later(new, old) else ""


def _lines(report: UpgradeReport) -> Iterator[str]:
    before, after = report.old.macos_minimum, report.new.macos_minimum
    if before and after:
        yield f"Oldest macOS: {one_line(before)}" + (f" → {one_line(after)}" if before != after else ", as before")
    for name, versions in sorted(report.libraries.items()):
        yield f"With {one_line(name, 60)} {' → '.join(one_line(version, 40) for version in versions)}"
    if gone := len(report.fallbacks_gone):
        yield f"{plural(gone, 'operator')} that PyTorch runs on the CPU {'goes' if gone == 1 else 'go'} to the GPU"
    if report.remaining:
        names = ", ".join(map(one_line, report.remaining))
        yield f"{plural(len(report.remaining), 'known wrong result')} of both: {names}"


def _breaks(report: UpgradeReport) -> Iterator[Block]:
    if needed := _newer_macos(report):
        before = one_line(report.old.macos_minimum or "")
        yield Paragraph(f"On macOS before {needed} the GPU is not used; the old release did from {before} on.")
    yield from table(KERNELS, None, _public_first(report.lost), "Operators without a kernel", filtered=True, most=MOST)
    if report.sparse_lost:
        yield Paragraph(f"{plural(len(report.sparse_lost), 'operator')} lost the kernel for sparse tensors.")
        yield from _names(report.sparse_lost)
    if report.removed:
        count = plural(len(report.removed), "operator")
        yield Paragraph(f"PyTorch itself has removed {count} that worked on MPS: --all, or a page, names them.")


def _further(report: UpgradeReport) -> Iterator[Section]:
    lists = {
        "Operators that PyTorch has removed": report.removed,
        "New operators with a kernel": report.added,
        "Were composed of others, have a kernel of their own": report.own,
        "Have a kernel for sparse tensors now": report.sparse_gained,
    }
    for title, names in lists.items():
        yield Section(title, _names(names), depth="all")


def _names(names: Iterable[str]) -> list[Block]:
    rows = [(name,) for name in names if name.strip()]
    return [Table((Column("operator", "name"),), rows, "Operators", filtered=True, most=MOST)] if rows else []


def _public_first(changes: Iterable[ChangedKernel]) -> list[ChangedKernel]:
    """Those that raise before those that run on the CPU; of each first what programs call by name."""
    worst = {one.operator: max(SEVERITY[one.old], SEVERITY[one.new]) for one in changes}
    return sorted(changes, key=lambda one: (-worst[one.operator], "::_" in one.operator, one.operator))


class Change(NamedTuple):
    """An operator of a workload whose verdict is another one; ``worse``: more is to do than before."""

    workload: str
    operator: str
    old: Verdict | None
    new: Verdict | None
    worse: bool


def changes_of(judged: UpgradedWorkload) -> list[Change]:
    """The operators that are not native on one of the releases, and are something else on the other, worse ones first.

    Those that a run did not reach are left out.
    """
    if judged.old is None or judged.new is None:
        return []
    changes = []
    for name in dict.fromkeys([*judged.new.findings, *judged.old.findings]):
        old, new = judged.old.findings.get(name), judged.new.findings.get(name)
        unreached = (judged.new.failure and new is None) or (judged.old.failure and old is None)
        if old != new and not unreached:
            worse = SEVERITY[new or "native"] > SEVERITY[old or "native"]
            changes.append(Change(judged.name, name, old, new, worse))
    return sorted(changes, key=lambda change: (not change.worse, change.operator))


def is_worse(judged: UpgradedWorkload) -> bool:
    """Whether the new release does anything worse for a workload: an operator, a wrong result, an end."""
    if judged.old is None or judged.new is None:
        return False
    ends = judged.old.failure is None and judged.new.failure is not None
    wrong = set(judged.new.advisories) - set(judged.old.advisories)
    return ends or bool(wrong) or any(change.worse for change in changes_of(judged))


CHANGES: Fields[None, Change] = (
    (Column("workload", "name"), lambda _, one: one.workload),
    (Column("operator", "name"), lambda _, one: one.operator),
    (Column("before"), lambda _, one: one.old or NATIVE),
    (Column("now"), lambda _, one: one.new or NATIVE),
)
WORKLOADS: Fields[None, UpgradedWorkload] = (
    (Column("workload", "name"), lambda _, judged: judged.name),
    (Column("before"), lambda _, judged: _state(judged.old)),
    (Column("now"), lambda _, judged: _state(judged.new)),
    (Column("better", "number"), lambda _, judged: sum(not change.worse for change in changes_of(judged)) or None),
    (Column("worse", "number"), lambda _, judged: sum(change.worse for change in changes_of(judged)) or None),
    (Column("wrong results", rank=1), lambda _, judged: _wrong(judged)),
    (Column("memory", rank=2), lambda _, judged: _fits(judged)),
)
ERRORS: Fields[None, UpgradedWorkload] = (
    (Column("workload", "name"), lambda _, judged: judged.name),
    (Column("error"), lambda _, judged: judged.error),
    (Column("do", "advice"), lambda _, judged: judged.hint),
)


def _workloads(report: UpgradeReport) -> Iterator[Block]:
    judged = [workload for workload in report.workloads if workload.new is not None]
    yield from table(WORKLOADS, None, judged, "Workloads")
    stopped = (
        f"{one_line(workload.name, 60)} stops on torch {one_line(cell.target.version, 40)}: "
        f"{answer.failure_sentence(cell.failure)}"
        for workload in judged
        for cell in (workload.old, workload.new)
        if cell is not None and cell.failure is not None
    )
    yield from bullets(stopped)


def _state(cell: MatrixCell | None) -> str | None:
    """``all native``; ``2 missing, 1 fallback``; with ``stops`` where the run did not come to its end."""
    if cell is None:
        return None
    return ", ".join([*answer.findings_of(cell.summary), *(["stops"] if cell.failure else [])]) or "all native"


def _wrong(judged: UpgradedWorkload) -> str | None:
    """``2 fixed, 1 new: conv3d-macos-26-2``."""
    if judged.old is None or judged.new is None:
        return None
    before, after = set(judged.old.advisories), set(judged.new.advisories)
    parts = [f"{number(len(before - after))} fixed"] if before - after else []
    new = ", ".join(map(one_line, sorted(after - before)))
    parts += [f"{number(len(after - before))} new: {new}"] if after - before else []
    parts += [f"{number(len(before & after))} as before"] if before & after else []
    return ", ".join(parts) or None


def _fits(judged: UpgradedWorkload) -> str | None:
    """``fits → pressure``, where a Mac was asked about."""
    if judged.old is None or judged.new is None or judged.old.fit is None or judged.new.fit is None:
        return None
    before, after = judged.old.fit.answer, judged.new.fit.answer
    return before if before == after else f"{before} → {after}"


def rows(report: UpgradeReport) -> Iterator[tuple[Cell, ...]]:
    """The rows of a CSV file: what changed, of what, from what, to what; ``workload`` where it is of one."""
    yield ("kind", "workload", "name", "old", "new")
    yield ("macos_minimum", None, None, report.old.macos_minimum, report.new.macos_minimum)
    for kind, changes in (("gained", report.gained), ("lost", report.lost)):
        yield from ((kind, None, one.operator, one.old, one.new) for one in changes)
    lists = ("added", "own", "removed", "sparse_gained", "sparse_lost")
    for kind in lists:
        yield from ((kind, None, name, None, None) for name in getattr(report, kind))
    for kind, results in (("fixed", report.fixed), ("introduced", report.introduced)):
        yield from ((kind, None, result.id, None, result.title) for result in results)
    for workload in report.workloads:
        for change in changes_of(workload):
            yield ("worse" if change.worse else "better", workload.name, change.operator, change.old, change.new)
    for workload in report.workloads:
        if workload.error is not None:
            yield ("error", workload.name, workload.error, None, None)
