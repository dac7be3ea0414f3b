"""Calls of the device, judged when one like them is first seen, and counted after that."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import torch

from mpsprobe_coverage.advisories.conditions import matches
from mpsprobe_coverage.calls.call import Call
from mpsprobe_coverage.calls.keys import overload_named, sparse_key
from mpsprobe_coverage.calls.spec import Specs, specs_in
from mpsprobe_coverage.device.attribution import NOWHERE, Origin
from mpsprobe_coverage.device.dispatch import Plan
from mpsprobe_coverage.device.recorder import Recorder
from mpsprobe_coverage.device.watching import Watching
from mpsprobe_coverage.judging.judgement import Judgement
from mpsprobe_programs.native.refusing import refusal_of
from mpsprobe_programs.native.registering import DERIVATIVE, Registered

_current_node = torch._C._current_autograd_node
_PHASES = ("forward", "backward", "optimizer")
_JUDGE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_PLACE = ctypes.CFUNCTYPE(ctypes.c_int64)


class _Distinct(NamedTuple):
    operator: str
    judgement: Judgement
    phase: str
    origin: Origin
    inputs: Specs
    outputs: Specs
    composed_by: str | None
    advisories: tuple[str, ...]


class _Place(NamedTuple):
    phase: str
    origin: Origin
    composed_by: str | None  # what calls operators there, if the release composes it otherwise


class Recording:
    """Between C++, which counts, and a ``Recorder``, from which reports are made.

    Args:
        registered: what C++ records.
        lines: find module and line of every call; without it only phases are known.
        keep_going: a call that a Mac refuses is a finding, and the program goes on.
    """

    def __init__(self, registered: Registered, *, lines: bool, keep_going: bool) -> None:
        self.recorder = Recorder()
        self._operators, self._dispatch, self._compositions = registered
        self._attribution, self._keep_going = self._dispatch.attribution, keep_going
        self._watching = Watching(self._dispatch.table)
        self._slots: dict[int, _Distinct] = {}
        self._places: dict[_Place, int] = {}
        self._of_place: list[_Place] = []
        self._error: BaseException | None = None
        for phase in _PHASES if not lines else ():
            self._index(_Place(phase, NOWHERE, None))
        self.phase = "forward"  # what calls belong to that no autograd node makes
        self._judge = _JUDGE(self._judged)
        self._place = _PLACE(self._placed)
        self._lines = lines

    def start(self) -> None:
        """Count from now on."""
        asked = self._lines or self._compositions.differ
        address = ctypes.cast(self._place, ctypes.c_void_p).value if asked else 0
        torch.ops.mpsprobe.set_raising(not self._keep_going)
        torch.ops.mpsprobe.record(ctypes.cast(self._judge, ctypes.c_void_p).value, address)
        self._dispatch.recording = self

    def enter(self, phase: str) -> None:
        """Calls belong to ``phase`` from now on (``forward``, ``optimizer``), but for those of autograd nodes."""
        self.phase = phase
        torch.ops.mpsprobe.set_phase(_PHASES.index(phase))

    def stop(self) -> None:
        """Count no more; everything is in ``recorder`` then."""
        torch.ops.mpsprobe.record(0, 0)
        self._dispatch.recording = None
        self.take()
        if self._error is not None:
            raise self._error

    def take(self) -> None:
        """Bring what C++ has counted into ``recorder``."""
        counts = torch.ops.mpsprobe.take_counts()
        for slot, distinct in self._slots.items():
            if slot < len(counts):
                self._count(distinct, counts[slot])
        self._slots.clear()

    def _count(self, one: _Distinct, calls: int) -> None:
        if not calls:
            return
        recorder, judgement = self.recorder, one.judgement
        recorder.phase = one.phase
        if judgement.verdict == "unknown":
            recorder.unjudged(one.operator, judgement.reason or "", one.origin, calls)
        for advisory in one.advisories:
            recorder.advised(advisory, one.operator, one.origin, calls)
        recorder.call(one.operator, judgement, one.origin, one.inputs, one.outputs, one.composed_by, calls)
        recorder.phase = None

    def record(self, plan: Plan, args: Any, kwargs: Any, inputs: Specs, outputs: Specs) -> None:
        """A call that C++ does not see."""
        judgement = plan.judges.judge(Call(plan.func, args, kwargs, inputs, outputs))
        self._count(self._distinct(plan, judgement, self._of_place[self._placed()], inputs, outputs), 1)

    def _distinct(
        self, plan: Plan, judgement: Judgement, place: _Place, inputs: Specs, outputs: Specs, call: Call | None = None
    ) -> _Distinct:
        name, phase = plan.name, place.phase
        watched = self._watching.of(name) if judgement.verdict == "native" and call is not None else ()
        found = tuple(advisory.id for advisory in watched if call is not None and matches(advisory, call, phase))
        mark = None if place.composed_by is None else self._compositions.mark(name)
        return _Distinct(name, judgement, phase, place.origin, inputs, outputs, mark, found)

    def taken(self) -> Recorder:
        """What was called since this was last asked."""
        self.take()
        taken, self.recorder = self.recorder, Recorder()
        return taken

    def place_of(self, number: int) -> tuple[str, Origin]:
        """Phase and origin of a place, by the number that C++ has."""
        return self._of_place[number][:2]

    def _judged(self, operator: int, place: int, slot: int) -> int:
        try:
            if slot < 0:
                self.take()
                return 0
            return self._judge_call(self._name(operator), place, slot)
        except BaseException as error:  # noqa: BLE001 - it cannot pass through C
            self._error = self._error or error
            return 0

    def _name(self, operator: int) -> str:
        if operator < len(self._operators):
            return self._operators[operator]
        # Of libraries that were imported after the device was opened.
        late: list[str] = torch.ops.mpsprobe.late_operators()
        return late[operator - len(self._operators)]

    def _judge_call(self, name: str, place: int, slot: int) -> int:
        arguments, results, raised = torch.ops.mpsprobe.shown()
        func = overload_named(name.removeprefix(DERIVATIVE))
        inputs, outputs = specs_in(arguments), specs_in(results)
        plan = self._dispatch.plan_of(func, sparse_key(arguments))
        at = self._of_place[place]
        if name.startswith(DERIVATIVE):
            self._slots[slot] = self._distinct(plan, plan.registered, at, inputs, outputs)
            return 0
        generators = [one.device.type == "mps" for one in arguments if isinstance(one, torch.Generator)]
        call = Call(func, tuple(arguments), {}, inputs, outputs, any(generators), not all(generators), raised or None)
        judgement = plan.judges.judge(call)
        self._slots[slot] = self._distinct(plan, judgement, at, inputs, outputs, call)
        if self._keep_going:
            return 0
        refusal = refusal_of(name, judgement)
        if refusal is None:
            return 0
        torch.ops.mpsprobe.refuse(slot, *refusal)
        return 1

    def _placed(self) -> int:
        try:
            in_backward = _current_node() is not None
            origin = self._attribution.current() if self._lines else NOWHERE
            phase = "backward" if in_backward else self.phase
            return self._index(_Place(phase, origin, self._compositions.current()))
        except BaseException as error:  # noqa: BLE001 - it cannot pass through C
            self._error = self._error or error
            return 0

    def _index(self, place: _Place) -> int:
        known = self._places.get(place)
        if known is None:
            known = self._places[place] = len(self._of_place)
            self._of_place.append(place)
        return known
