"""What an observer hands over: kinds of calls, with how often each happened and what it copied."""

from __future__ import annotations

from enum import IntFlag
from typing import NamedTuple, Protocol

from mpsprobe_coverage.knowledge.calls.spec import Specs
from mpsprobe_coverage.recording.attribution import Attribution, Origin


class Happened(IntFlag):
    """What was seen of a call; the numbers are those of ``observer.cpp``.

    ``FELL_BACK``: PyTorch's CPU fallback ran it. ``REGISTERED``: the device has a kernel for it, or it is made of other
    operators. ``RAISED``: it ended with an exception. ``THERE_AND_BACK``: its kernel copied to the CPU and back.
    """

    FELL_BACK = 1
    REGISTERED = 2
    RAISED = 4
    THERE_AND_BACK = 8


class Kind(NamedTuple):
    """Calls that agree in all of this. ``inputs`` and ``outputs`` are None where their tensors were left out."""

    operator: str
    device: str
    phase: str
    origin: Origin
    happened: Happened
    inputs: Specs | None
    outputs: Specs | None


class Counted(NamedTuple):
    """How often a kind of call was made, and the bytes that those calls copied between the CPU and the device."""

    kind: Kind
    calls: int
    to_cpu_bytes: int
    from_cpu_bytes: int


class Observer(Protocol):
    """What sees the calls. There is one in a process; ``observe.py`` shares what it sees out.

    Attributes:
        limits: what it cannot see that the one in C++ sees, in sentences.
    """

    limits: tuple[str, ...]

    def start(self, attribution: Attribution | None) -> None:
        """See every call from now on; ``attribution`` says where each is made."""

    def stop(self) -> None:
        """See no more. What was seen can still be taken."""

    def take(self) -> list[Counted]:
        """What was seen since the last time."""
