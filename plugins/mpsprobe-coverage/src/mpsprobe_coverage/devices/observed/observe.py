"""``observe()``: what a program does on the device that it runs on, as ``observer.cpp`` sees it."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import IntFlag
from functools import cache
from itertools import islice
from typing import NamedTuple, Self

import torch

from mpsprobe.errors import UsageError
from mpsprobe_coverage.devices.compiling import OBSERVER
from mpsprobe_coverage.devices.interpreter import address_of, called_by_c, functions, passing_on
from mpsprobe_coverage.knowledge.calls.spec import Specs, TensorSpec, interned
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.recording.attribution import NOWHERE, Attribution, Origin
from mpsprobe_coverage.recording.phases import PHASES, optimizers_followed
from mpsprobe_coverage.recording.recorder import Recorder

MOST_KINDS = 2**16  # as in ``table.h``; ``finish`` may be called often
LEFT_OUT = "more than 65,536 kinds of calls: the tensors of these are not separated"
RAN = Judgement("native", evidence="it ran there")
FELL_BACK = Judgement(
    "fallback", "PyTorch's kernel for the device ran it on the CPU", evidence="PyTorch's CPU fallback was seen to run"
)
THERE_AND_BACK = Judgement(
    "fallback", "its kernel copied to the CPU and back", evidence="copies both ways were seen inside one call"
)
NO_KERNEL = "the device has no kernel for it"
MISSING = Judgement("missing", NO_KERNEL, evidence="it raised")
MISSING_RUN = Judgement("missing", f"{NO_KERNEL}; it ran on the CPU", evidence="PyTorch's CPU fallback was seen to run")
RAISED = "it raised: whether that is the device or the program is not known"
_NO_TENSORS = -1  # where C++ left them out
_PLACE = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_int64))
# In the order of c10/core/Layout.h.
_LAYOUTS = (
    torch.strided, torch.sparse_coo, torch.sparse_csr, torch.strided, torch.sparse_csc, torch.sparse_bsr,
    torch.sparse_bsc, torch.jagged,
)  # fmt: skip
# C++ writes the types of numbers in its own way; most others are written alike.
_DTYPES = {
    "Byte": torch.uint8, "Char": torch.int8, "Short": torch.int16, "Int": torch.int32, "Long": torch.int64,
    "Half": torch.float16, "Float": torch.float32, "Double": torch.float64, "BFloat16": torch.bfloat16,
    "ComplexHalf": torch.complex32, "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128,
    "Bool": torch.bool,
}  # fmt: skip
_LINE = re.compile(r"^CPU Fallback::(?P<operator>\w+::\w+)\b.*\(id=\d+, run=(?P<run>\d+), CopyOverhead=", re.MULTILINE)
_DIFFER = "{operator} fell back {seen} times as observed, and {logged} times in the log of PyTorch's profiler"


class Happened(IntFlag):
    """What was seen of a call; the numbers are those of ``observer.cpp``."""

    FELL_BACK = 1  # PyTorch's CPU fallback ran it
    REGISTERED = 2  # the device has a kernel for it, or it is made of other operators
    RAISED = 4
    THERE_AND_BACK = 8  # its kernel copied to the CPU and back


class Kind(NamedTuple):
    """Calls that agree in all of this. ``inputs`` and ``outputs`` are None where their tensors were left out."""

    operator: str
    device: str
    phase: str
    origin: Origin
    happened: Happened
    inputs: Specs | None
    outputs: Specs | None


def judged(happened: Happened) -> Judgement | None:
    """The judgement on calls of which ``happened`` was seen; None where nothing is known of the device.

    A kernel that raises may refuse what the device cannot do, or what no device can: the program knows.
    """
    registered = Happened.REGISTERED in happened
    if Happened.FELL_BACK in happened:
        return FELL_BACK if registered else MISSING_RUN
    if Happened.RAISED in happened:
        return None if registered else MISSING
    return THERE_AND_BACK if Happened.THERE_AND_BACK in happened else RAN


@dataclass(slots=True)
class ObservedCall:
    kind: Kind
    judgement: Judgement | None  # what they say about their device; None where nothing is known, because they raised
    calls: int = 0
    to_cpu_bytes: int = 0
    from_cpu_bytes: int = 0


class Observation:
    """Sees the operator calls of this process while it is open (``with``), on every thread; see ``observe``.

    It can be opened again, and again while it is open; what it sees is added up. ``UsageError`` where it is opened and
    there is no listener, and nothing to build it with.
    """

    def __init__(self, device: str, lines: bool) -> None:
        self.name, self.lines = device, lines
        self.recorder = Recorder()  # the calls on that device, after ``finish`` or the end of ``with``
        self.attribution = Attribution()
        self.attribution.follow_program(lambda root: None)
        self._calls: dict[Kind, ObservedCall] = {}

    def __enter__(self) -> Self:
        _listener.opened(self)
        return self

    def __exit__(self, *error: object) -> None:
        _listener.closed(self)

    def finish(self) -> None:
        _listener.share()

    def calls(self) -> Iterator[ObservedCall]:
        return iter(self._calls.values())

    def add(self, kind: Kind, number: int, to_cpu_bytes: int, from_cpu_bytes: int) -> None:
        if kind not in self._calls and len(self._calls) >= MOST_KINDS:
            kind = kind._replace(inputs=None, outputs=None)
        call = self._calls.get(kind)
        if call is None:
            call = self._calls[kind] = ObservedCall(kind, judged(kind.happened))
        call.calls += number
        call.to_cpu_bytes += to_cpu_bytes
        call.from_cpu_bytes += from_cpu_bytes
        if kind.device == self.name:
            self._record(call, number)

    def _record(self, call: ObservedCall, number: int) -> None:
        kind = call.kind
        if call.judgement is None:
            for _ in range(number):
                self.recorder.unjudged(kind.operator, RAISED, kind.origin)
            return
        if kind.inputs is None:
            self.recorder.unjudged(kind.operator, LEFT_OUT, kind.origin)
        self.recorder.phase = kind.phase
        self.recorder.call(
            kind.operator, call.judgement, kind.origin, kind.inputs or (), kind.outputs or (), calls=number
        )
        self.recorder.phase = None


def observe(device: str | torch.device | None = None, *, lines: bool = True) -> Observation:
    """As ``mpsprobe.observe``, on a real device alone."""
    if device is None:
        accelerator = torch.accelerator.current_accelerator()
        return Observation("cpu" if accelerator is None else accelerator.type, lines)
    try:
        return Observation(torch.device(device).type, lines)
    except RuntimeError as error:
        raise UsageError(f"there is no device {device!r}", "Name one that torch knows, such as mps or cpu.") from error


class _Listener:
    """There is one in a process, for all observations that are open.

    Whenever one comes or goes, what was seen is shared out. ``UsageError`` where it cannot be built.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: list[Observation] = []
        self._attributions = ExitStack()
        self._following: ExitStack | None = None  # while it listens
        self._asked: Attribution | None = None  # for lines
        self._places: dict[Origin, int] = {NOWHERE: 0}
        self._origins = [NOWHERE]
        self._errors: list[BaseException] = []
        operators = torch.ops.mpsprobe_observer  # looked into once it is loaded
        self._place = called_by_c(_PLACE, self._placed, lambda error: operators.raise_later(error), self._errors)

    def opened(self, observation: Observation) -> None:
        with self._lock:
            _load()
            self.share()
            if observation.lines and observation not in self._open:
                self._attributions.enter_context(observation.attribution)
            self._open.append(observation)
            self._follow()

    def closed(self, observation: Observation) -> None:
        with self._lock:
            if observation not in self._open:
                return
            last = len(self._open) == 1
            try:
                if last:
                    self._stop()
            finally:
                self.share()
                self._open.remove(observation)
                if last:
                    # Each puts back what it found, so that they are closed together, in the reverse order.
                    self._attributions.close()
                else:
                    self._follow()

    def share(self) -> None:
        with self._lock:
            everyone = {id(listener): listener for listener in self._open}.values()
            for counted in self._seen() if everyone else ():
                for observation in everyone:
                    observation.add(*counted)

    def close(self) -> None:
        with self._lock:
            while self._open:
                self.closed(self._open[-1])

    def _follow(self) -> None:
        """Ask the first observation that wants lines for them; a new start forgets where autograd's nodes were made."""
        asked = next((listener.attribution for listener in self._open if listener.lines), None)
        if self._following is not None and asked is not self._asked:
            self._stop()
        if self._following is None:
            self._asked, operators = asked, torch.ops.mpsprobe_observer
            operators.start(0 if asked is None else address_of(self._place), functions())
            self._following = ExitStack()
            self._following.enter_context(passing_on(operators.raise_later))
            self._following.enter_context(optimizers_followed(operators.in_optimizer))

    def _stop(self) -> None:
        """See no more, and raise what went wrong while places were looked up."""
        assert self._following is not None
        self._following.close()
        self._following = None
        torch.ops.mpsprobe_observer.stop()
        if self._errors:
            raise self._errors.pop()

    def _seen(self) -> Iterator[tuple[Kind, int, int, int]]:
        words = iter(torch.ops.mpsprobe_observer.take())
        names = torch.ops.mpsprobe_observer.operators()
        for _length in words:
            calls, to_cpu, from_cpu, operator, place, phase, device_and_flags = islice(words, 7)
            device, happened = _device(device_and_flags & 0xFF), Happened(device_and_flags >> 8)
            place_and_tensors = self._origins[place], happened, _specs(words), _specs(words)
            yield Kind(names[operator], device, PHASES[phase], *place_and_tensors), calls, to_cpu, from_cpu

    def _placed(self) -> int:
        assert self._asked is not None
        origin = self._asked.current()
        number = self._places.get(origin)
        if number is None:
            number = self._places[origin] = len(self._origins)
            self._origins.append(origin)
        return number


_listener = _Listener()
atexit.register(_listener.close)


@cache
def _load() -> None:
    OBSERVER.load()
    hold = torch.ops.mpsprobe_observer.hold
    if hasattr(os, "register_at_fork"):
        # A thread that counts while another one forks must not leave its lock closed in the child, which sees nothing.
        os.register_at_fork(before=lambda: hold(True), after_in_parent=lambda: hold(False), after_in_child=_forked)


def _forked() -> None:
    torch.ops.mpsprobe_observer.hold(False)
    torch.ops.mpsprobe_observer.stop()


@cache
def _device(number: int) -> str:
    return str(torch.ops.mpsprobe_observer.device_name(number))


@cache
def _dtype(number: int) -> torch.dtype:
    name = str(torch.ops.mpsprobe_observer.dtype_name(number))
    dtype: torch.dtype = _DTYPES.get(name) or getattr(torch, name.lower())
    return dtype


def _specs(words: Iterator[int]) -> tuple[TensorSpec, ...] | None:
    count = next(words)
    return None if count == _NO_TENSORS else tuple([_spec(words) for _ in range(count)])


def _spec(words: Iterator[int]) -> TensorSpec:
    head = next(words)
    dtype, layout, rank = _dtype(head & 0xFF), _LAYOUTS[head >> 8 & 0xFF], head >> 24
    shape = tuple([next(words) for _ in range(rank)])
    if layout is torch.strided:
        return interned(shape, tuple([next(words) for _ in range(rank)]), dtype)
    sparse, dense, stored = next(words), next(words), next(words)
    stride = tuple(torch.empty(shape, device="meta").stride())
    form = (sparse, stored, False) if layout is torch.sparse_coo else (dense, stored, (), torch.int64)
    return interned(shape, stride, dtype, layout, form)


# A second source on a Mac: what PyTorch's own profiler of MPS writes about fallbacks.
#
# With `PYTORCH_MPS_LOG_PROFILE_INFO=4` (`CPU_FALLBACK_INFO` in `ATen/mps/MPSProfiler.h`), set before torch is
# imported, each fallback writes a line to standard error::
#
#     CPU Fallback::aten::linalg_svd:MPS:Float[4, 4] (id=1, run=3, CopyOverhead=64.00 Bytes)
#
# `run` counts the calls of the operator, without its overload, since the process began. Its bytes are not compared:
# `mps_fallback` (`ATen/mps/MPSFallback.mm`) adds up the tensors among the arguments, and where it means the results
# takes the last arguments once more, since it asks before there are any.
#
# Nothing here was run on a Mac. The format is that of `CpuFbInfo::toString` in `MPSProfiler.mm`.
def disagreements(calls: Iterable[tuple[Kind, int]], log: str) -> list[str]:
    seen: Counter[str] = Counter()
    for kind, number in calls:
        if Happened.FELL_BACK in kind.happened:
            seen[kind.operator.partition(".")[0]] += number
    runs = {(line["operator"], int(line["run"])) for line in _LINE.finditer(log)}
    logged = Counter(operator for operator, _ in runs)
    return [
        _DIFFER.format(operator=operator, seen=seen[operator], logged=logged[operator])
        for operator in sorted({*seen, *logged})
        if seen[operator] != logged[operator]
    ]
