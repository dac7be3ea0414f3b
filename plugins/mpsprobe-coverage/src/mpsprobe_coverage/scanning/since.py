"""From which release on is the whole workload native? Found with as few runs as possible.

A run on one release applies to every release that registers each operator it met in the same way, and whose judges
find each of its calls native: there the dispatcher decides the same. To judge the calls again nothing is run. Where a
release differs it may still be native, because it is made of other operators there (attention before 2.5.0), so the
workload is run once more, up to the first call that is not native. So it is where a route gets another answer, and on
newer releases, which may call what the run's does not have, wherever an operator goes on otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mpsprobe_coverage.knowledge.calls.call import Call, Calls
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.releases import since_without_gap
from mpsprobe_coverage.recording.release_questions import Asked


@dataclass(frozen=True)
class NativeRun:
    """A run in which everything was native.

    Attributes:
        chain: the judges of its release.
        calls: what it called, one call of each kind.
        asked: what it asked about its release.
        autocast: whether it was under autocast.
        large: whether a convolution was of tensors with ``LARGE`` elements: which operator that calls depends on sizes.
    """

    chain: Chain
    calls: Calls
    asked: Asked
    autocast: bool = False
    large: bool = False


def native_since(
    releases: Sequence[str],
    trace: Callable[[str], NativeRun | None],
    applies: Callable[[NativeRun, str], bool],
    known: tuple[str, NativeRun | None],
) -> str | None:
    """The first release from which on, without a gap up to the newest, the workload is native.

    Args:
        releases: oldest first.
        trace: runs the workload on a release; None if not all of it was native.
        applies: whether a run shows that another release is native too.
        known: a release that was run already, and what ``trace`` said.
    """

    run = known[1]

    def is_native(release: str) -> bool:
        nonlocal run
        if release == known[0] or run is None or not applies(run, release):
            run = known[1] if release == known[0] else trace(release)
        return run is not None

    return since_without_gap(releases, is_native)


def applies_to(run: NativeRun, chain: Chain) -> bool:
    """Whether all that ``run`` called is native on the release of ``chain`` too, and is called there."""
    if run.large or (run.autocast and chain.table.autocast_key not in chain.table.keys):
        return False
    if not run.asked.alike(chain):
        return False
    if chain.table.at_least(run.chain.table.release) and not _goes_on_alike(run, chain):
        return False
    return all(_is_alike(func, key, calls, run.chain, chain) for (func, key), calls in run.calls.items())


def _goes_on_alike(run: NativeRun, chain: Chain) -> bool:
    return all(run.asked.goes_on_alike(func, key, chain) for func, key in run.calls)


def _is_alike(func: Any, key: str | None, calls: Sequence[Call], before: Chain, after: Chain) -> bool:
    """Whether two releases register the overload in the same way, and the second one's judges find ``calls`` native."""
    known, judges = before.judges_of(func, key), after.judges_of(func, key)
    if judges.registered.verdict != known.registered.verdict:
        return False
    return judges.rules == known.rules or all(judges.judge(call).verdict == "native" for call in calls)
