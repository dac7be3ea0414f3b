"""Releases that one run is about: those whose dispatchers decide the same, which is so for most patch releases.

Such releases register the same operators, compose them in the same way, and are of one minor version, which is what the
device and the step ask for. What may differ is what kernels take. So the judges of each are asked about every call of
one run; where they come to different verdicts the release gets a run of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from packaging.version import Version

from mpsprobe_coverage.judging.judgement import Judgement
from mpsprobe_coverage.kernels.compositions import composition_releases, load_compositions
from mpsprobe_coverage.kernels.table import KernelTable
from mpsprobe_coverage.scanner.traces import Trace


def together(tables: Sequence[KernelTable]) -> list[list[KernelTable]]:
    """``tables`` in their order, those next to each other that one run may be about in one list."""
    groups: list[list[KernelTable]] = []
    for table in tables:
        if groups and _decide_alike(groups[-1][0], table):
            groups[-1].append(table)
        else:
            groups.append([table])
    return groups


def shared(trace: Trace, position: int | None, table: KernelTable) -> Trace | None:
    """What ``trace`` says about the release of ``table``; None where that needs a run of its own.

    Args:
        position: of the table among the others of the run; None for the one that it was run on.
    """

    def of_table(judgement: Judgement) -> Judgement:
        if position is None or not judgement.others:
            return judgement._replace(others=())
        found: Judgement = judgement.others[position]
        if found.verdict == "unknown" and found.reason is not None:  # what the device itself has found out
            found = found._replace(
                reason=found.reason.replace(f"torch {trace.table.release}", f"torch {table.release}")
            )
        return found

    records = trace.recorder.calls()
    if any(of_table(record.judgement).verdict != record.judgement.verdict for record in records):
        return None
    return replace(trace, table=table, recorder=trace.recorder.judged(of_table))


def _decide_alike(one: KernelTable, other: KernelTable) -> bool:
    minors = {Version(table.release).release[:2] for table in (one, other)}
    known = composition_releases()
    return (
        one.family is other.family
        and len(minors) == 1
        and not (one.source or other.source)
        and one.release in known
        and other.release in known
        and one.macos_minimum == other.macos_minimum
        and _same_operators(one, other)
        and one.family.optimizer_forms(one) == other.family.optimizer_forms(other)
        and load_compositions(one.release).calls == load_compositions(other.release).calls
    )


def _same_operators(one: KernelTable, other: KernelTable) -> bool:
    ours, theirs = (table.family.loaded_libraries(table.release) for table in (one, other))
    if ours.keys() != theirs.keys() or any(ours[name].labels != theirs[name].labels for name in ours):
        return False
    return one.labels == other.labels
