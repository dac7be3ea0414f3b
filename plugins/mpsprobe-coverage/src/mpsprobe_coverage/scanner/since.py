"""From which release on is the whole workload native? Found with as few runs as possible.

A run on one release applies to every release that treats each operator it met the same way: there the
dispatcher decides the same. Where one of them has no kernel, or is refused, the release may still be
native, because it is made of other operators there (attention before 2.5.0), so the workload is run
once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from mpsprobe_coverage.device.autocast import key_of
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.judging.judgement import Rule
from mpsprobe_coverage.judging.registration import is_native
from mpsprobe_coverage.judging.switches import Switches
from mpsprobe_coverage.kernels.releases import since_without_gap

LARGE = (1 << 31) - 1


@dataclass(frozen=True)
class NativeRun:
    """A run in which everything was native.

    Attributes:
        chain: the judges of its release.
        dtypes: operator → the dtypes of its tensors.
        autocast: whether it was under autocast.
        ranks: operator → the most dimensions that one of its tensors has, 0 where it is not there.
        large: whether a tensor had ``LARGE`` elements or more: which operators are called may depend on that.
    """

    chain: Chain
    dtypes: Mapping[str, frozenset[torch.dtype]]
    autocast: bool = False
    ranks: Mapping[str, int] = field(default_factory=dict)
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
    """Whether the release of ``chain`` too has a kernel for everything that ``run`` called, and refuses none of it."""
    if run.large or (run.autocast and key_of(chain.table) not in chain.table.keys):
        return False
    return all(
        is_native(operator, chain.tables.get(operator.partition("::")[0], chain.table))
        and not _refuses_more(
            chain.rules_of(operator), run.chain.rules_of(operator), dtypes, run.ranks.get(operator, 0)
        )
        for operator, dtypes in run.dtypes.items()
    )


def _refuses_more(rules: Sequence[Rule], known: Sequence[Rule], dtypes: frozenset[torch.dtype], rank: int) -> bool:
    """Whether one of ``rules`` is not among those of the run, and may concern its dtypes, ranks and sizes."""
    may = [rule for rule in rules if _concerns(rule, dtypes, rank) and rule not in known]
    if not may:
        return False
    before = [_among(rule, dtypes) for rule in known]
    return any(_among(rule, dtypes) not in before for rule in may)


def _concerns(rule: Rule, dtypes: frozenset[torch.dtype], rank: int) -> bool:
    """Large tensors are in no run that applies to other releases."""
    if getattr(rule, "large", False) or rank <= getattr(rule, "above_rank", -1):
        return False
    return rule.dtypes is None or not rule.dtypes.isdisjoint(dtypes)


def _among(rule: Rule, dtypes: frozenset[torch.dtype]) -> Rule:
    """What is left of the rule for these dtypes, where it can say so; newer releases know more of them."""
    return rule.among(dtypes) if isinstance(rule, Switches) else rule
