"""Calls of the device, judged when one like them is first seen, and counted after that."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch

from mpsprobe_coverage.calls.call import Call
from mpsprobe_coverage.calls.keys import overload_named, sparse_key
from mpsprobe_coverage.calls.spec import Specs, specs_in
from mpsprobe_coverage.device.attribution import NOWHERE, Attribution, Origin
from mpsprobe_coverage.device.recorder import Recorder
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.judging.judgement import Judgement
from mpsprobe_programs.native.registering import DERIVATIVE
from mpsprobe_programs.native.refusing import refusal_of

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


class Recording:
    """Between C++, which counts, and a ``Recorder``, from which reports are made.

    Args:
        chain: judges the calls.
        operators: name of each operator, at the position that C++ knows it by.
        lines: find module and line of every call; without it only phases are known.
        keep_going: a call that a Mac refuses is a finding, and the program goes on.
    """

    def __init__(
        self, chain: Chain, operators: Sequence[str], attribution: Attribution, *, lines: bool, keep_going: bool
    ) -> None:
        self.recorder = Recorder()
        self._chain, self._operators, self._attribution, self._keep_going = chain, operators, attribution, keep_going
        self._slots: dict[int, _Distinct] = {}
        self._places: dict[tuple[str, Origin], int] = {}
        self._of_place: list[tuple[str, Origin]] = []
        self._error: BaseException | None = None
        for phase in _PHASES if not lines else ():
            self._index(phase, NOWHERE)
        self.phase = "forward"  # what calls belong to that no autograd node makes
        self._judge = _JUDGE(self._judged)
        self._place = _PLACE(self._placed)
        self._lines = lines

    def start(self) -> None:
        """Count from now on."""
        address = ctypes.cast(self._place, ctypes.c_void_p).value if self._lines else 0
        torch.ops.mpsprobe.set_raising(not self._keep_going)
        torch.ops.mpsprobe.record(ctypes.cast(self._judge, ctypes.c_void_p).value, address)

    def enter(self, phase: str) -> None:
        """Calls belong to ``phase`` from now on (``forward``, ``optimizer``), but for those of autograd nodes."""
        self.phase = phase
        torch.ops.mpsprobe.set_phase(_PHASES.index(phase))

    def stop(self) -> None:
        """Count no more; everything is in ``recorder`` then."""
        torch.ops.mpsprobe.record(0, 0)
        self.take()
        if self._error is not None:
            raise self._error

    def take(self) -> None:
        """Bring what C++ has counted into ``recorder``."""
        counts = torch.ops.mpsprobe.take_counts()
        for slot, distinct in self._slots.items():
            if slot < len(counts) and counts[slot]:
                self.recorder.phase = distinct.phase
                self.recorder.call(
                    distinct.operator, distinct.judgement, distinct.origin, distinct.inputs, distinct.outputs,
                    calls=counts[slot],
                )  # fmt: skip
        self.recorder.phase = None
        self._slots.clear()

    def taken(self) -> Recorder:
        """What was called since this was last asked."""
        self.take()
        taken, self.recorder = self.recorder, Recorder()
        return taken

    def _judged(self, operator: int, place: int, slot: int) -> int:
        try:
            if slot < 0:
                self.take()
                return 0
            return self._judge_call(self._operators[operator], place, slot)
        except BaseException as error:  # noqa: BLE001 - it cannot pass through C
            self._error = self._error or error
            return 0

    def _judge_call(self, name: str, place: int, slot: int) -> int:
        arguments, results, raised = torch.ops.mpsprobe.shown()
        func = overload_named(name.removeprefix(DERIVATIVE))
        inputs, outputs = specs_in(arguments), specs_in(results)
        phase, origin = self._of_place[place]
        if name.startswith(DERIVATIVE):
            judges = self._chain.judges_of(func)
            self._slots[slot] = _Distinct(judges.operator, judges.registered, phase, origin, inputs, outputs)
            return 0
        key = sparse_key(arguments)
        generators = [one.device.type == "mps" for one in arguments if isinstance(one, torch.Generator)]
        call = Call(func, tuple(arguments), {}, inputs, outputs, any(generators), not all(generators), raised or None)
        judges = self._chain.judges_of(func, key)
        judgement = judges.judge(call)
        self._slots[slot] = _Distinct(judges.operator, judgement, phase, origin, inputs, outputs)
        if self._keep_going:
            return 0
        refusal = refusal_of(name, judgement)
        if refusal is None:
            return 0
        torch.ops.mpsprobe.refuse(slot, *refusal)
        return 1

    def _placed(self) -> int:
        try:
            phase = self.phase if _current_node() is None else "backward"
            return self._index(phase, self._attribution.current())
        except BaseException as error:  # noqa: BLE001 - it cannot pass through C
            self._error = self._error or error
            return 0

    def _index(self, phase: str, origin: Origin) -> int:
        known = self._places.get((phase, origin))
        if known is None:
            known = self._places[phase, origin] = len(self._of_place)
            self._of_place.append((phase, origin))
        return known
