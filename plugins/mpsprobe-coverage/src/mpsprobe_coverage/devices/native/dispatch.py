"""What routes of the virtual device ask, where their calls go to the dispatcher, which records them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.knowledge.calls.keys import operator_name, overload_named
from mpsprobe_coverage.knowledge.calls.spec import Specs
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.recording.attribution import Attribution
from mpsprobe_coverage.recording.dispatch import Plan, Route
from mpsprobe_coverage.recording.planning import make_plan
from mpsprobe_coverage.recording.recorder import Recorder
from mpsprobe_coverage.recording.release_questions import Asked

LEAVES = "VE"
"""No tensor has this key; the kernels of operators that have a route wait there until the route wants them."""


class Records(Protocol):
    """What records the calls that C++ does not see."""

    recorder: Recorder

    @property
    def phase(self) -> str:
        """What the calls of this thread belong to now."""

    def record(self, plan: Plan, args: Any, kwargs: Any, inputs: Specs, outputs: Specs) -> None:
        """Judge and count one."""


class Routed:
    """The ``Dispatch`` of the native device.

    Attributes:
        recording: what records, while the device is open.
        release: as a ``Dispatch`` has it.
        attribution: finds module and line.
        sizes_of_cpu, other_sizes: as a ``Dispatch`` has them; what runs here has the sizes of its values.
    """

    sizes_of_cpu, other_sizes = False, ""

    def __init__(self, chain: Chain, attribution: Attribution, routed: frozenset[str]) -> None:
        self.chain, self.table, self.attribution, self._routed = chain, chain.table, attribution, routed
        self.release = Asked(chain)
        self.recording: Records | None = None
        self._plans: dict[tuple[Any, str | None], Plan] = {}
        self._decomposing: set[Plan] = set()

    def __enter__(self) -> None:
        """Everything is dispatched anyway."""

    def __exit__(self, *error: Any) -> None:
        """Nothing was changed."""

    @property
    def phase(self) -> str | None:
        """What is recorded now."""
        return None if self.recording is None else self.recording.phase

    @property
    def gradients_end(self) -> dict[str, Any]:
        """As a ``Recorder`` has it."""
        return {} if self.recording is None else self.recording.recorder.gradients_end

    def run(self, route: Route, *args: Any, **kwargs: Any) -> Any:
        """The kernel of an operator with a route."""
        plan = self.plan_of(overload_named(route.operator))
        dispatch: Any = self  # routes for other targets ask for more, which values make needless
        if plan in self._decomposing:
            return self.leaf(plan, args, kwargs)
        if plan.decomposition is None:
            return route.run(dispatch, plan, args, kwargs)
        self._decomposing.add(plan)
        try:
            return route.run(dispatch, plan, args, kwargs)
        finally:
            self._decomposing.discard(plan)

    def plan_of(self, func: Any, key: str | None = None) -> Plan:
        """The plan for an overload; ``key`` is the dispatch key of sparse arguments."""
        plan = self._plans.get((func, key))
        if plan is None:
            plan = self._plans[func, key] = make_plan(func, self.chain, {}, key)
        return plan

    def leaf(self, plan: Plan, args: Any, kwargs: Any, raised: str | None = None) -> Any:
        """Call it."""
        del raised
        if operator_name(plan.func) in self._routed or plan.decomposition is not None:
            return plan.func._op_dk(getattr(DispatchKey, LEAVES), *args, **kwargs)
        return plan.func(*args, **kwargs)

    def record(self, plan: Plan, args: Any, kwargs: Any, inputs: Specs, outputs: Specs) -> None:
        """Judge and record a call that was run elsewhere."""
        if self.recording is not None:
            self.recording.record(plan, args, kwargs, inputs, outputs)

    def composing(self, name: str) -> AbstractContextManager[None]:
        """Indexing is followed in C++."""
        return nullcontext()

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Nothing is recorded inside."""
        before = torch.ops.mpsprobe.mute(True)
        try:
            yield
        finally:
            torch.ops.mpsprobe.mute(before)
