"""From which release on is the whole workload native? Found with as few runs as possible.

A run on one release applies to every release on which each operator it met goes on in the same way, routes ask with the
same answers, and the judges find each call native: there the same is called. To judge the calls again nothing is run.
Where a release differs it may still be native, because it is made of other operators there (attention before 2.5.0), so
the workload is run once more, up to the first call that is not native.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mpsprobe_coverage.calls.call import Calls
from mpsprobe_coverage.device.asked import Asked
from mpsprobe_coverage.device.autocast import key_of
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.kernels.releases import since_without_gap


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
    if run.large or (run.autocast and key_of(chain.table) not in chain.table.keys):
        return False
    return run.asked.alike(chain) and all(_is_alike(run, func, key, chain) for func, key in run.calls)


def _is_alike(run: NativeRun, func: Any, key: str | None, chain: Chain) -> bool:
    """Whether an overload goes on alike on the release of ``chain``, and its judges find the calls native."""
    if not run.asked.goes_on_alike(func, key, chain):
        return False
    judges = chain.judges_of(func, key)
    return judges.rules == run.chain.judges_of(func, key).rules or all(
        judges.judge(call).verdict == "native" for call in run.calls[func, key]
    )
