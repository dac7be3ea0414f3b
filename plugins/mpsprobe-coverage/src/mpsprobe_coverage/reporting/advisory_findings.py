"""From calls that advisories are about to the advisories of a report."""

from __future__ import annotations

from mpsprobe.assembling import Tally
from mpsprobe.protocols import MacOptions
from mpsprobe.schemas import AdvisoryMatch
from mpsprobe_coverage.knowledge.advisories.model import Advisory
from mpsprobe_coverage.knowledge.advisories.store import named
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.recorder import Advised, Recorder
from mpsprobe_coverage.reporting.findings import add_place


def advisory_matches(recorder: Recorder, table: KernelTable, mac: MacOptions) -> list[AdvisoryMatch]:
    """The advisories that the run's calls match on the release of ``table``, most called first.

    Args:
        recorder: of the run on that release.
        table: of the release.
        mac: to judge for; without a macOS for every one that the release runs on.
    """
    calls: dict[str, list[Advised]] = {}
    for advised in recorder.advisories():
        calls.setdefault(advised.advisory, []).append(advised)
    affecting = [
        known for known in named(calls) if known.affects(table.release, table.macos_minimum, mac.macos, mac.chip)
    ]
    matches = [_match(advisory, calls[advisory.id]) for advisory in affecting]
    return sorted(matches, key=lambda match: (-match.calls, match.id))


def _match(advisory: Advisory, calls: list[Advised]) -> AdvisoryMatch:
    tally = Tally()
    for advised in calls:
        add_place(tally, advised)
    return AdvisoryMatch(
        id=advisory.id,
        title=advisory.title,
        condition=advisory.condition,
        symptom=advisory.symptom,
        workaround=advisory.workaround,
        hardware=advisory.where,
        chips=list(advisory.chips),
        torch=advisory.torch,
        macos=advisory.macos,
        sources=list(advisory.sources),
        operators=sorted({advised.operator for advised in calls}),
        **tally.places(),
    )
