"""Missing operators by the number of architectures that they block, and what each release gained."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mpsprobe_atlas.reading import BLOCKING, SEVERITY, Judged

if TYPE_CHECKING:
    from mpsprobe.declarations import OperatorRewrite
    from mpsprobe.schemas import RankedOperator, RankedRelease, RankedRewrite


@dataclass(slots=True)
class Met:
    # Operator → architecture → phase → the worst verdict; those that are native are left out.
    operators: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    clean: set[str] = field(default_factory=set)  # architectures whose operators are all native, in each of their rows
    known: set[str] = field(default_factory=set)  # every architecture with an answer

    def verdicts(self, operator: str) -> set[str]:
        """That architectures meet it under."""
        return {one for phases in self.operators.get(operator, {}).values() for one in phases.values()}

    def met(self, *verdicts: str) -> dict[str, set[str]]:
        """Operator → the architectures that meet it under one of ``verdicts``."""
        found = {}
        for operator, by_architecture in self.operators.items():
            those = {name for name, phases in by_architecture.items() if set(verdicts) & set(phases.values())}
            if those:
                found[operator] = those
        return found

    def blocked(self, *verdicts: str) -> dict[str, set[str]]:
        """Architecture → the operators that it meets under one of ``verdicts``, or that block it."""
        found: dict[str, set[str]] = {}
        for operator, names in self.met(*(verdicts or BLOCKING)).items():
            for name in names:
                found.setdefault(name, set()).add(operator)
        return found


def gather(rows: Iterable[Judged], releases: Sequence[str], phases: Collection[str] = ()) -> dict[str, Met]:
    """What each release, oldest first, does with all architectures; for no ``phases`` all count."""
    found = {release: Met() for release in releases}
    for one in rows:
        if phases and one.row.phase not in phases:
            continue
        for release, run in one.runs.items():
            met = found.get(release)
            if met is None:
                continue
            if run.state != "native":
                met.clean.discard(one.architecture)
            elif one.architecture not in met.known:
                met.clean.add(one.architecture)
            met.known.add(one.architecture)
            for operator, verdict in run.verdicts.items():
                by_phase = met.operators.setdefault(operator, {}).setdefault(one.architecture, {})
                if SEVERITY[verdict] >= SEVERITY[by_phase.get(one.row.phase, "native")]:
                    by_phase[one.row.phase] = verdict
    return found


def ranked(found: Mapping[str, Met], release: str, verdicts: Sequence[str] = BLOCKING) -> list[RankedOperator]:
    """The operators that architectures meet in ``release`` under one of ``verdicts``, the one that most meet first."""
    from mpsprobe.schemas import RankedOperator

    met, met_with = found[release], found[release].met(*verdicts)
    blockers = met.blocked(*verdicts)
    later = list(found)[list(found).index(release) :]
    every = {one: found[one].met(*verdicts) for one in later}
    rows = [
        RankedOperator.model_validate(
            {
                "operator": operator,
                "verdict": max(set(verdicts) & met.verdicts(operator), key=SEVERITY.__getitem__),
                "architectures": sorted(names),
                "alone": sorted(name for name in names if blockers[name] == {operator}),
                "phases": sorted({phase for name in names for phase in met.operators[operator][name]}),
                "native_since": _gone(operator, later, every),
            }
        )
        for operator, names in met_with.items()
    ]
    return sorted(rows, key=lambda one: (-len(one.architectures), -len(one.alone), one.operator))


def rewritten(
    found: Mapping[str, Met], release: str, rewrites: Iterable[OperatorRewrite]
) -> tuple[list[RankedRewrite], int]:
    """Which rewrite frees whom in ``release``, the most first; and how many architectures run with all of them."""
    from mpsprobe.schemas import RankedRewrite

    blocked = found[release].blocked()
    rows, all_of_them = [], set()
    for one in rewrites:
        operators = set(one.operators)
        all_of_them |= operators
        names = sorted(name for name, blockers in blocked.items() if blockers & operators)
        if names:
            alone = [name for name in names if blocked[name] <= operators]
            met = sorted(operators & set().union(*(blocked[name] for name in names)))
            rows.append(RankedRewrite(name=one.name, operators=met, architectures=names, alone=alone))
    rows.sort(key=lambda one: (-len(one.alone), -len(one.architectures), one.name))
    return rows, sum(blockers <= all_of_them for blockers in blocked.values())


def _gone(operator: str, later: Sequence[str], every: Mapping[str, Mapping[str, set[str]]]) -> str | None:
    """The first release from which on, without a gap up to the newest, nobody meets ``operator``."""
    last = max(index for index, release in enumerate(later) if operator in every[release])
    return next(iter(later[last + 1 :]), None)


def gained(found: Mapping[str, Met]) -> list[RankedRelease]:
    """What each release gained over the one before, the newest first."""
    from mpsprobe.schemas import RankedRelease

    rows = []
    before: tuple[set[str], set[str]] | None = None
    for release, met in found.items():
        operators, blocked = set(met.met(*BLOCKING)), set(met.blocked())
        old_operators, old_blocked = before or (operators, blocked)
        rows.append(
            RankedRelease(
                torch=release,
                clean=len(met.clean),
                blocked=len(blocked),
                operators=sorted(old_operators - operators),
                architectures=sorted(old_blocked - blocked),
                lost=sorted(blocked - old_blocked),
            )
        )
        before = operators, blocked
    return rows[::-1]
