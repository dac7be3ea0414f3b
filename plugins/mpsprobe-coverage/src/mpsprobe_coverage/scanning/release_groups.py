"""Releases that one run is about: those that answer as its own release does all that it asked.

The judges of each are asked about every call of the run. A release that does something else somewhere, or comes to
another verdict, gets a run of its own, which may again be one for others.
"""

from __future__ import annotations

from dataclasses import replace

from mpsprobe.protocols import RunOptions
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.kernels.compositions import composition_releases
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.scanning.step import FUSED_BY_DEFAULT_SINCE, SCALED_IN_FLOAT32_SINCE


def may_share(one: KernelTable, other: KernelTable, options: RunOptions) -> bool:
    """Whether a run on ``one`` may be about ``other`` too, as far as that is known before it."""
    known = composition_releases()
    if one is other or one.family is not other.family or one.source or other.source:
        return False
    if one.release not in known or other.release not in known:
        return False
    asked = []
    if options.phase == "training":
        asked.append(FUSED_BY_DEFAULT_SINCE)
        if one.family.optimizer_forms(one) != other.family.optimizer_forms(other):
            return False
    if options.autocast:
        asked.append(SCALED_IN_FLOAT32_SINCE)
        if one.keys.get(one.autocast_key) != other.keys.get(other.autocast_key):
            return False
    return all(one.at_least(version) == other.at_least(version) for version in asked)


def shared(trace: Trace, position: int | None, table: KernelTable) -> Trace | None:
    """What ``trace`` says about the release of ``table``; None where that needs a run of its own.

    Args:
        position: of the table among the other releases of the run; None for the one that it was run on.
    """
    if position is not None and position not in trace.alike:
        return None
    if position is not None and trace.failure is not None and trace.table.release in trace.failure.message:
        return None

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
