"""From calls that advisories are about to the advisories of a report."""

from __future__ import annotations

from collections import Counter

from mpsprobe.schemas import AdvisoryMatch
from mpsprobe_coverage.advisories.model import Advisory
from mpsprobe_coverage.advisories.store import named
from mpsprobe_coverage.device.recorder import Advised, Recorder
from mpsprobe_coverage.kernels.table import KernelTable
from mpsprobe_coverage.scanner.findings import site


def advisory_matches(recorder: Recorder, table: KernelTable, macos: str | None = None) -> list[AdvisoryMatch]:
    """The advisories that the run's calls match on the release of ``table``, most called first.

    Args:
        recorder: of the run on that release.
        table: of the release.
        macos: the macOS to judge for; ``None`` for every one that the release runs on.
    """
    calls: dict[str, list[Advised]] = {}
    for one in recorder.advisories():
        calls.setdefault(one.advisory, []).append(one)
    concerned = [one for one in named(calls) if one.affects(table.release, table.macos_minimum, macos)]
    made = [_match(advisory, calls[advisory.id]) for advisory in concerned]
    return sorted(made, key=lambda match: (-match.calls, match.id))


def _match(advisory: Advisory, calls: list[Advised]) -> AdvisoryMatch:
    phases: Counter[str] = Counter()
    sites: Counter[str] = Counter()
    for one in calls:
        phases[one.phase] += one.calls
        if one.origin.file is not None:
            sites[site(one.origin.file, one.origin.line)] += one.calls
    modules = dict.fromkeys(one.origin.module or "(model)" for one in calls if one.origin.module is not None)
    return AdvisoryMatch(
        id=advisory.id,
        title=advisory.title,
        condition=advisory.condition,
        symptom=advisory.symptom,
        workaround=advisory.workaround,
        hardware=advisory.hardware,
        torch=advisory.torch,
        macos=advisory.macos,
        sources=list(advisory.sources),
        operators=sorted({one.operator for one in calls}),
        calls=phases.total(),
        phases=dict(phases),
        modules=list(modules),
        call_sites=[text for text, _ in sites.most_common()],
    )
