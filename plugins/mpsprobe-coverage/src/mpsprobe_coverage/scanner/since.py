"""From which release on is the whole workload native? Found with as few runs as possible.

A run on one release speaks for every release that has a native kernel for each operator it met: there
the dispatcher decides the same. Where one of them has none, the release may still be native, because
it is made of other operators there (attention before 2.5.0), so the workload is run once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

NativeOperators = frozenset[str] | None


def native_since(
    releases: Sequence[str],
    trace: Callable[[str], NativeOperators],
    registers: Callable[[str, frozenset[str]], bool],
    known: tuple[str, NativeOperators] | None = None,
) -> str | None:
    """The first of ``releases`` (oldest first) from which the workload is native up to the last.

    Args:
        trace: runs the workload on a release: the operators it called if all were native, else None.
        registers: whether a release has a native kernel for each of some operators.
        known: a release that was run already, and what ``trace`` said.
    """
    since = None
    operators: NativeOperators = None
    if known is not None and known[1] is not None and registers(releases[-1], known[1]):
        operators = known[1]
    for release in reversed(releases):
        if operators is None or not registers(release, operators):
            operators = known[1] if known is not None and release == known[0] else trace(release)
            if operators is None:
                break
        since = release
    return since
