"""What was called: one record for each distinct call, with a count.

A training step of a large model repeats the same few hundred calls tens of thousands of times, so a call is looked up
by what makes it distinct and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mpsprobe_coverage.knowledge.advisories.conditions import Answer, Knowing, decided, matches
from mpsprobe_coverage.knowledge.advisories.model import Advisory
from mpsprobe_coverage.knowledge.advisories.store import all_advisories, entries_about
from mpsprobe_coverage.knowledge.advisories.words import Condition, is_asked
from mpsprobe_coverage.knowledge.calls.call import Call, example
from mpsprobe_coverage.knowledge.calls.spec import Specs
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.kernels.table import MPS, KernelTable
from mpsprobe_coverage.knowledge.memory.lifetimes import Lifetimes
from mpsprobe_coverage.recording.attribution import Origin
from mpsprobe_coverage.recording.branches import Ways
from mpsprobe_coverage.recording.dispatch import Plan

RECORDS_KEPT = 2**16  # a program may make calls of ever new sizes
EXAMPLES_KEPT = 8  # of one operator under one judgement, and in one finding


@dataclass(slots=True)
class CallRecord:
    """Calls of one operator that agree in everything below; ``inputs`` and ``outputs`` are of its tensors.

    ``composed_by`` makes the calls, and is not known to do so on the target release (``Composing.mark``).
    ``advisories`` are those that such calls match. ``runs``: the only ones of several (``branches.py``) that make them.
    """

    operator: str
    judgement: Judgement
    phase: str
    origin: Origin
    inputs: Specs
    outputs: Specs
    composed_by: str | None = None
    calls: int = 0
    advisories: Matches = ()
    runs: frozenset[int] = frozenset()


@dataclass(slots=True)
class Note:
    operator: str
    text: str
    origin: Origin
    calls: int = 0


@dataclass(slots=True)
class Advised:
    """Calls of one operator from one place that one advisory, named by its identifier, is about.

    ``undecided``: it is about them if values are as it says, which are not known. ``runs`` as of ``CallRecord``.
    """

    advisory: str
    undecided: bool
    operator: str
    phase: str
    origin: Origin
    calls: int = 0
    runs: frozenset[int] = frozenset()


class NotNative(BaseException):
    """A call is not native, and nothing else was asked. No ``Exception``: programs catch those."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class Recorder:
    """Collects while ``phase`` is set; ``None`` (building the model, moving it) records nothing."""

    only_native: bool = False  # the first call that is not native ends the run: it raises ``NotNative``
    phase: str | None = None
    last_phase: str | None = None
    # Operators that no gradient passes, having no derivative, and where each was called last.
    gradients_end: dict[str, Origin] = field(default_factory=dict)
    lifetimes: Lifetimes | None = None  # gets what was called, with the storages that it made
    # Calls that are not native, as `calls/examples.py` writes them; each with how many were made before it.
    examples: dict[tuple[str, Judgement], dict[str, int]] = field(default_factory=dict)
    ways: Ways | None = None  # where several runs were united: what decides which of them makes a call
    base: Recorder | None = None  # has the same calls, where these are them under other judgements
    says: Callable[[Judgement], Judgement] = field(
        default=lambda judgement: judgement
    )  # is called with each judgement of ``base``
    _calls: dict[tuple[Any, ...], CallRecord] = field(default_factory=dict)
    _unjudged: dict[tuple[Any, ...], Note] = field(default_factory=dict)
    _assumed: dict[tuple[Any, ...], Note] = field(default_factory=dict)
    _advised: dict[tuple[Any, ...], Advised] = field(default_factory=dict)

    def call(
        self,
        operator: str,
        judgement: Judgement,
        origin: Origin,
        inputs: Specs,
        outputs: Specs,
        composed_by: str | None = None,
        calls: int = 1,
    ) -> None:
        phase = self.phase
        assert phase is not None
        self._count((operator, judgement, phase, origin, inputs, outputs, composed_by), calls)
        if self.lifetimes is not None:
            self.lifetimes.made(operator, origin, inputs, outputs, judgement.verdict)
        if self.only_native and judgement.verdict != "native":
            raise NotNative

    def add(self, like: CallRecord, calls: int) -> None:
        """Count calls like one that was seen elsewhere, in its phase; threads may do that at the same time."""
        operator, judgement, origin = like.operator, like.judgement, like.origin
        self._count((operator, judgement, like.phase, origin, like.inputs, like.outputs, like.composed_by), calls)
        if judgement.verdict == "unknown":
            self.unjudged(operator, judgement.reason or "", origin, calls)
        for advisory, undecided in like.advisories:
            self._advise(advisory, undecided, operator, like.phase, origin, calls)

    def _count(self, call: tuple[Any, ...], calls: int) -> None:
        key, record = call, self._calls.get(call)
        if record is None and len(self._calls) >= RECORDS_KEPT:  # new sizes are counted with the first of their place
            key = (*call[:4], call[6])
            record = self._calls.get(key)
        if record is None:
            record = self._calls[key] = CallRecord(*call)
        record.calls += calls

    def example(self, operator: str, judgement: Judgement, call: Call) -> None:
        kept = self.examples.setdefault((operator, judgement), {})
        if len(kept) < EXAMPLES_KEPT and (text := example(call)) is not None:
            kept.setdefault(text, sum(map(len, self.examples.values())))

    def unjudged(self, operator: str, reason: str, origin: Origin, calls: int = 1) -> None:
        _count(self._unjudged, operator, reason, origin, calls)

    def assumed(self, operator: str, value: str, origin: Origin) -> None:
        _count(self._assumed, operator, value, origin)

    def advised(self, advisory: str, undecided: bool, operator: str, origin: Origin) -> None:
        phase = self.phase
        assert phase is not None
        self._advise(advisory, undecided, operator, phase, origin, 1)

    def _advise(self, advisory: str, undecided: bool, operator: str, phase: str, origin: Origin, calls: int) -> None:
        key = (advisory, undecided, operator, phase, origin)
        record = self._advised.setdefault(key, Advised(*key))
        record.calls += calls

    def advisories(self) -> Iterator[Advised]:
        return iter(self._advised.values())

    def calls(self) -> Iterator[CallRecord]:
        return iter(self._calls.values())

    def marked(self) -> dict[int, int]:
        kept: tuple[dict[Any, Any], ...] = (self._calls, self._unjudged, self._assumed, self._advised)
        return {id(record): record.calls for group in kept for record in list(group.values())}

    def since(self, mark: Mapping[int, int], into: Recorder) -> None:
        """Add to ``into`` what was counted after ``mark``; records live as long as their recorder."""
        for group in ("_calls", "_unjudged", "_assumed", "_advised"):
            theirs = getattr(into, group)
            for key, record in list(getattr(self, group).items()):
                calls = record.calls - mark.get(id(record), 0)
                if calls:
                    theirs.setdefault(key, replace(record, calls=0)).calls += calls
        into.examples |= self.examples

    def unite(self, recorders: Sequence[Recorder], ways: Ways) -> None:
        """Add what other runs of the same called at places where this one did not, ``recorders`` being all of them."""
        self.ways = ways
        whole = frozenset(number for number, way in enumerate(ways.ways) if way.failure is None)
        for group in ("_calls", "_advised"):
            runs: dict[tuple[Any, ...], set[int]] = {}
            for number, recorder in enumerate(recorders):
                for record in getattr(recorder, group).values():
                    runs.setdefault(_place(record), set()).add(number)
            own = getattr(self, group)
            known = {*map(_place, own.values())}
            for number, recorder in enumerate(recorders):
                for key, record in getattr(recorder, group).items():
                    if recorder is self or (_place(record) not in known and number == min(runs[_place(record)])):
                        record.runs = frozenset() if whole <= runs[_place(record)] else frozenset(runs[_place(record)])
                        own[key] = record
        for recorder in recorders:
            for key, note in recorder._unjudged.items():
                self._unjudged.setdefault(key, note)
            for key, note in recorder._assumed.items():
                self._assumed.setdefault(key, note)
            for kind, calls in recorder.examples.items():
                self.examples.setdefault(kind, calls)
            self.gradients_end |= recorder.gradients_end

    def judged(self, by: Callable[[Judgement], Judgement]) -> Recorder:
        """The same calls, each with what ``by`` makes of its judgement; none is added to them any more."""
        other = Recorder(gradients_end=self.gradients_end, ways=self.ways, base=self, says=by)
        other._assumed, other._advised = self._assumed, self._advised
        for number, record in enumerate(self._calls.values()):
            call = (
                record.operator,
                by(record.judgement),
                record.phase,
                record.origin,
                record.inputs,
                record.outputs,
                record.composed_by,
            )
            other._calls[(number,)] = CallRecord(*call, record.calls, record.advisories, record.runs)
        if self._unjudged:
            reasons = {call.judgement.reason or "": by(call.judgement).reason or "" for call in self._calls.values()}
            for note in self._unjudged.values():
                other.unjudged(note.operator, reasons.get(note.text, note.text), note.origin, note.calls)
        for (operator, before), calls in self.examples.items():
            other.examples.setdefault((operator, by(before)), {}).update(calls)
        return other

    def not_judged(self) -> Iterator[Note]:
        return iter(self._unjudged.values())

    def assumptions(self) -> Iterator[Note]:
        return iter(self._assumed.values())


def _place(record: CallRecord | Advised) -> tuple[Any, ...]:
    """What other runs make alike: they may call it with other shapes."""
    what = record.judgement if isinstance(record, CallRecord) else (record.advisory, record.undecided)
    return (record.operator, what, record.phase, record.origin)


def _count(notes: dict[tuple[Any, ...], Note], operator: str, text: str, origin: Origin, calls: int = 1) -> None:
    note = notes.setdefault((operator, text, origin), Note(operator, text, origin))
    note.calls += calls


Matches = tuple[tuple[str, bool], ...]
"""Identifiers of advisories, and whether values that are not known decide if they apply."""


class Watching:
    """The advisories of one release, or of several judged together, and what an old macOS refuses there, by operator.

    Only the plans of operators that some advisory names have watchers; all others cost one look at an empty tuple.
    Whether a call matches is worked out once for each distinct call, phase and answer to what is asked of each call.
    """

    def __init__(self, knowing: Knowing, *tables: KernelTable) -> None:
        self._knowing, self._tables = knowing, tables if tables[0].backend.key == MPS else ()
        self._known: dict[tuple[Any, ...], Matches] = {}
        self._of: dict[str, tuple[Advisory, ...]] = {}

    def of(self, operator: str) -> tuple[Advisory, ...]:
        if operator not in self._of:
            self._of[operator] = tuple(
                entry
                for entry in entries_about(operator)
                if (entry.effect == "numbers" or entry.macos.fixed is not None)
                and any(entry.affects(table.release, table.macos_minimum) for table in self._tables)
            )
        return self._of[operator]

    def asking(self) -> set[str]:
        """Operators of whose calls something is asked."""
        named = {
            operator
            for entry in all_advisories()
            if any(map(is_asked, entry.conditions))
            for operator in entry.operators
        }
        return {operator for operator in named if self._asked(self.of(operator))}

    def watch(self, plan: Plan) -> None:
        """Give ``plan`` its watchers, and what they ask of each call."""
        plan.watchers = self.of(plan.name)
        plan.asks = self._asked(plan.watchers)

    @staticmethod
    def _asked(advisories: tuple[Advisory, ...]) -> tuple[Condition, ...]:
        conditions = [condition for advisory in advisories for condition in advisory.conditions]
        return tuple(dict.fromkeys(filter(is_asked, conditions)))

    def decided(self, plan: Plan, args: Any, kwargs: Any) -> tuple[Answer, ...]:
        """The answers to ``plan.asks``, before the call is made."""
        return decided(plan.asks, Call(plan.func, args, kwargs, (), ()), self._knowing) if plan.asks else ()

    def matching(
        self, plan: Plan, call: Call, phase: str, answers: tuple[Answer, ...] = (), outcome: object = None
    ) -> Matches:
        """``outcome``: stands for all calls that are the same but for ``answers``."""
        key = (outcome, phase, answers)
        matching = None if outcome is None else self._known.get(key)
        if matching is None:
            by_condition = dict(zip(plan.asks, answers, strict=True))
            found = ((watcher, matches(watcher, call, phase, by_condition)) for watcher in plan.watchers)
            matching = tuple((watcher.id, answer is None) for watcher, answer in found if answer is not False)
            if outcome is not None:
                self._known[key] = matching
        return matching
