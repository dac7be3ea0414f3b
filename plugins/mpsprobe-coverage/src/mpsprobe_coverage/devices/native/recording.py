"""Calls of the device, judged when one like them is first seen, and counted after that."""

from __future__ import annotations

import ctypes
import os
import threading
from itertools import count
from typing import Any, NamedTuple

import torch

from mpsprobe_coverage.devices.interpreter import address_of, called_by_c, functions
from mpsprobe_coverage.devices.native.registering import DERIVATIVE, Registered
from mpsprobe_coverage.knowledge.advisories.conditions import Answer
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.keys import overload_named, sparse_key
from mpsprobe_coverage.knowledge.calls.spec import Specs, specs_in
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.recording.attribution import NOWHERE, Origin
from mpsprobe_coverage.recording.capturing import KnownByMemory
from mpsprobe_coverage.recording.dispatch import Plan
from mpsprobe_coverage.recording.phases import PHASES, phase_now
from mpsprobe_coverage.recording.recorder import CallRecord, Matches, Recorder, Watching

_ANSWER = ctypes.POINTER(ctypes.c_int64)
_JUDGE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, _ANSWER)
_ASK = ctypes.CFUNCTYPE(None, ctypes.c_int64, _ANSWER)
_NO_SLOT = -1
_PLACE = ctypes.CFUNCTYPE(None, _ANSWER)
VARIABLE = "PYTORCH_ENABLE_MPS_FALLBACK"
# `mps_error_fallback` in aten/src/ATen/mps/MPSFallback.mm
_MISSING = (
    "The operator '{operator}' is not currently implemented for the MPS device. If you want this op to be considered "
    "for addition please comment on https://github.com/pytorch/pytorch/issues/141287 and mention use-case, that "
    "resulted in missing op. As a temporary fix, you can set the environment variable `{variable}=1` to use the CPU as "
    "a fallback for this op. WARNING: this will be slower than running natively on MPS."
)
# Of a dtype that Metal does not have: aten/src/ATen/native/mps/OperationUtils.mm, ATen/mps/EmptyTensor.cpp
_DTYPE = (
    "Cannot convert a MPS Tensor to {dtype} dtype as the MPS framework doesn't support {dtype}. "
    "Please use float32 instead."
)


class _Place(NamedTuple):
    phase: str
    origin: Origin
    composed_by: str | None  # what calls operators there, if the release composes it otherwise


class Recording:
    def __init__(self, registered: Registered, *, lines: bool, keep_going: bool) -> None:
        self.recorder = Recorder()
        self._operators, self._dispatch, self._compositions = registered
        self._attribution, self._keep_going = self._dispatch.attribution, keep_going
        self._watching = Watching(KnownByMemory(), self._dispatch.table)
        asking = self._watching.asking()
        self._asked_about = [number for number, name in enumerate(self._operators) if name in asking]
        self._answers: list[tuple[Answer, ...]] = [()]  # to what is asked of calls, by the numbers that C++ has
        self._slots: dict[int, CallRecord] = {}
        self._numbers = count()
        self._lock = threading.Lock()
        self._places: dict[_Place, int] = {}
        self._of_place: list[_Place] = []
        self._errors: list[BaseException] = []  # a stack that is used up is the program's, whose next call raises
        for phase in PHASES if not lines else ():
            self._index(_Place(phase, NOWHERE, None))
        later = torch.ops.mpsprobe.raise_later
        self._judge = called_by_c(_JUDGE, self._judged, later, self._errors, _NO_SLOT)
        self._place = called_by_c(_PLACE, self._place_now, later, self._errors)
        self._ask = called_by_c(_ASK, self._asked, later, self._errors)
        self._lines = lines

    def start(self) -> None:
        asked = self._lines or self._compositions.differ
        place = address_of(self._place) if asked else 0
        torch.ops.mpsprobe.set_raising(not self._keep_going)
        judge, ask = address_of(self._judge), address_of(self._ask)
        torch.ops.mpsprobe.record(judge, place, ask, self._asked_about, functions())
        self._dispatch.recording = self

    def stop(self) -> None:
        torch.ops.mpsprobe.record(0, 0, 0, [], [])
        self._dispatch.recording = None
        self.take()
        if self._errors:
            raise self._errors[0]

    def take(self) -> None:
        taken = torch.ops.mpsprobe.take_counts()
        for slot, calls in zip(taken[::2], taken[1::2], strict=True):
            self.recorder.add(self._slots.pop(slot), calls)

    def taken(self) -> Recorder:
        self.take()
        taken, self.recorder = self.recorder, Recorder()
        return taken

    def record(self, plan: Plan, args: Any, kwargs: Any, inputs: Specs, outputs: Specs) -> None:
        judgement = plan.judges.judge(Call(plan.func, args, kwargs, inputs, outputs))
        self.recorder.add(self._like(plan, judgement, self._of_place[self._place_now()], inputs, outputs), 1)

    def _like(
        self,
        plan: Plan,
        judgement: Judgement,
        place: _Place,
        inputs: Specs,
        outputs: Specs,
        call: Call | None = None,
        asked: int = 0,
    ) -> CallRecord:
        name, phase = plan.name, place.phase
        advisories: Matches = ()
        if judgement.verdict == "native" and call is not None:
            self._watching.watch(plan)
            if plan.watchers:
                answers = self._answers[asked] or self._watching.decided(plan, call.args, call.kwargs)
                advisories = self._watching.matching(plan, call, phase, answers)
        mark = None if place.composed_by is None else self._compositions.mark(name)
        return CallRecord(name, judgement, phase, place.origin, inputs, outputs, mark, advisories=advisories)

    def place_of(self, number: int) -> tuple[str, Origin]:
        return self._of_place[number][:2]

    def _asked(self, operator: int) -> int:
        arguments, _, _ = torch.ops.mpsprobe.shown()
        plan = self._dispatch.plan_of(overload_named(self._operators[operator]), sparse_key(arguments))
        self._watching.watch(plan)
        answers = self._watching.decided(plan, tuple(arguments), {})
        with self._lock:
            if answers not in self._answers:
                self._answers.append(answers)
        return self._answers.index(answers)

    def _judged(self, operator: int, place: int, asked: int) -> int:
        if operator < 0:
            self.take()
            return _NO_SLOT
        known, late = self._operators, torch.ops.mpsprobe.late_operators  # those imported after the device was opened
        name = known[operator] if operator < len(known) else late()[operator - len(known)]
        return self._judge_call(name, place, asked)

    def _judge_call(self, name: str, place: int, asked: int) -> int:
        """The slot of a new number in which calls like the one that is shown are counted."""
        arguments, results, raised = torch.ops.mpsprobe.shown()
        func = overload_named(name.removeprefix(DERIVATIVE))
        inputs, outputs = specs_in(arguments), specs_in(results)
        plan = self._dispatch.plan_of(func, sparse_key(arguments))
        at, slot = self._of_place[place], next(self._numbers)
        if name.startswith(DERIVATIVE):
            self._slots[slot] = self._like(plan, plan.registered, at, inputs, outputs)
            return slot
        generators = [argument.device.type == "mps" for argument in arguments if isinstance(argument, torch.Generator)]
        call = Call(func, tuple(arguments), {}, inputs, outputs, any(generators), not all(generators), raised or None)
        judgement = plan.judges.judge(call)
        self._slots[slot] = self._like(plan, judgement, at, inputs, outputs, call, asked)
        refusal = None if self._keep_going else refusal_of(name, judgement)
        if refusal is not None:
            torch.ops.mpsprobe.refuse(slot, *refusal)
        return slot

    def _place_now(self) -> int:
        origin = self._attribution.current() if self._lines else NOWHERE
        return self._index(_Place(phase_now(), origin, self._compositions.current()))

    def _index(self, place: _Place) -> int:
        number = self._places.get(place)
        if number is None:
            with self._lock:
                number = self._places.setdefault(place, len(self._of_place))
                if number == len(self._of_place):
                    self._of_place.append(place)
        return number


def refusal_of(operator: str, judgement: Judgement) -> tuple[str, str] | None:
    """The type of the exception that PyTorch raises on a Mac, and its text; None where the call does not raise.

    Only the texts of operators without a kernel and of dtypes are PyTorch's to the letter; for the rest it is what is
    known: the library's own message where the verdict rests on one, else the reason.
    """
    if judgement.verdict == "missing":
        if os.environ.get(VARIABLE, "0").strip() not in ("", "0"):
            return None
        return "NotImplementedError", _MISSING.format(operator=operator, variable=VARIABLE)
    if judgement.verdict != "unsupported":
        return None
    if judgement.source == "dtype":
        return "TypeError", _DTYPE.format(dtype=judgement.evidence)
    text = judgement.evidence if judgement.source in ("message", "device") else judgement.reason
    return "RuntimeError", text or judgement.reason or f"{operator} is not supported on MPS"
