"""Which calls of a run the advisories of the release are about, for the recorder.

Only the plans of operators that some advisory of the release names have watchers; all others cost one look at an empty
tuple. Whether a call matches is worked out once for each distinct call and phase.
"""

from __future__ import annotations

from typing import Any, Protocol

from mpsprobe_coverage.knowledge.advisories.conditions import matches
from mpsprobe_coverage.knowledge.advisories.model import Advisory
from mpsprobe_coverage.knowledge.advisories.store import advisories_for
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import Specs
from mpsprobe_coverage.knowledge.kernels.table import MPS, KernelTable
from mpsprobe_coverage.recording.dispatch import Plan


class Outcome(Protocol):
    """What a call left behind: one object for all calls that are alike."""

    flat: Specs


class Watching:
    """The advisories of one release, or of several that are judged together, by operator."""

    def __init__(self, *tables: KernelTable) -> None:
        self._by_operator: dict[str, tuple[Advisory, ...]] = {}
        self._known: dict[tuple[Outcome, str], tuple[str, ...]] = {}
        known = [one for table in tables for one in advisories_for(table.release, table.macos_minimum)]
        for advisory in {one.id: one for one in known}.values() if tables[0].backend.key == MPS else ():
            for name in advisory.operators:
                self._by_operator[name] = (*self._by_operator.get(name, ()), advisory)

    def of(self, operator: str) -> tuple[Advisory, ...]:
        """What a plan for ``operator`` watches."""
        return self._by_operator.get(operator, ())

    def matching(
        self, plan: Plan, args: Any, kwargs: Any, inputs: Specs, outcome: Outcome, phase: str
    ) -> tuple[str, ...]:
        """The identifiers of the advisories that a call is one for."""
        known = self._known.get((outcome, phase))
        if known is None:
            call = Call(plan.func, args, kwargs, inputs, outcome.flat)
            known = tuple(advisory.id for advisory in plan.watchers if matches(advisory, call, phase))
            self._known[outcome, phase] = known
        return known
