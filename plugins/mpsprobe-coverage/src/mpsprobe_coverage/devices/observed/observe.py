"""``observe()``: what a program does on the device that it runs on."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

import torch

from mpsprobe.errors import UsageError
from mpsprobe_coverage.devices.observed.listener import Counted, Happened, Kind, Listener
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.recording.attribution import Attribution
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
        _sharing.opened(self)
        return self

    def __exit__(self, *error: object) -> None:
        _sharing.closed(self)

    def finish(self) -> None:
        """Bring what was counted up to now into ``recorder`` and ``calls``; the observation may stay open."""
        _sharing.share()

    def calls(self) -> Iterator[ObservedCall]:
        return iter(self._calls.values())

    def add(self, counted: Counted) -> None:
        kind, number = counted.kind, counted.calls
        if kind not in self._calls and len(self._calls) >= MOST_KINDS:
            kind = kind._replace(inputs=None, outputs=None)
        call = self._calls.get(kind)
        if call is None:
            call = self._calls[kind] = ObservedCall(kind, judged(kind.happened))
        call.calls += number
        call.to_cpu_bytes += counted.to_cpu_bytes
        call.from_cpu_bytes += counted.from_cpu_bytes
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


class _Sharing:
    """One listener for all observations that are open. Whenever one comes or goes, what was seen is shared out."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: list[Observation] = []
        self._listener: Listener | None = None
        self._running = False
        self._asked: Attribution | None = None
        self._attributions = ExitStack()

    def opened(self, observation: Observation) -> None:
        with self._lock:
            self._listener = self._listener or Listener()
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
            if self._listener is None:
                return
            everyone = list({id(one): one for one in self._open}.values())
            for counted in self._listener.take():
                for observation in everyone:
                    observation.add(counted)

    def close(self) -> None:
        with self._lock:
            while self._open:
                self.closed(self._open[-1])

    def _follow(self) -> None:
        """Ask the first observation that wants lines for them; a new start forgets where autograd's nodes were made."""
        assert self._listener is not None
        asked = next((one.attribution for one in self._open if one.lines), None)
        if self._running and asked is not self._asked:
            self._stop()
        if not self._running:
            self._listener.start(asked)
            self._running, self._asked = True, asked

    def _stop(self) -> None:
        assert self._listener is not None
        self._running = False
        self._listener.stop()


_sharing = _Sharing()
atexit.register(_sharing.close)
