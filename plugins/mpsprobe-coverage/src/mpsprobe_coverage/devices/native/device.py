"""The native device of one release, open."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from typing import Any, Self

import torch

from mpsprobe.errors import UsageError
from mpsprobe_coverage.devices.compiling import DEVICE
from mpsprobe_coverage.devices.native.on_cpu import OnCpu, follow, seen
from mpsprobe_coverage.devices.native.recording import Recording
from mpsprobe_coverage.devices.native.registering import registered
from mpsprobe_coverage.devices.native.surface import mps_surface
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.recording.attribution import Attribution
from mpsprobe_coverage.recording.phases import optimizers_followed
from mpsprobe_coverage.recording.recorder import Recorder

_open: list[NativeDevice] = []


class NativeDevice:
    """Tensors on ``mps:0`` in C++ too, with values, computed by the CPU; every call is judged.

    C++ knows one device of this type in a process, for as long as the process lives; ``with`` is for the kernels, and
    for what is recorded. ``UsageError`` where it cannot be built, or torch has looked for MPS in this process.

    Args:
        chain: judges the calls; its table says which kernels there are.
        keep_going: what a Mac refuses is computed anyway.
        lines: record the module and the line of every call.
        cpu: also follow what is computed with tensors of the CPU alone.
        chip: the Mac's that ``torch.mps`` answers for; ``None`` for an M1.
    """

    name = "virtual"

    def __init__(
        self,
        chain: Chain,
        *,
        keep_going: bool = True,
        lines: bool = True,
        cpu: bool = False,
        chip: str | None = None,
    ) -> None:
        self.chain, self._keep_going, self._lines, self._cpu, self._chip = chain, keep_going, lines, cpu, chip
        self.attribution = Attribution()
        self._exits = ExitStack()
        self._recording: Recording | None = None
        DEVICE.load()
        atexit.unregister(_await_autograd)
        atexit.register(_await_autograd)
        operators = torch.ops.mpsprobe
        self.attribution.ask_for_threads(operators.thread_now.default, operators.thread_of_node.default)
        if not operators.is_found():
            raise UsageError(
                "torch has looked for MPS in this process before, and looks only once",
                "Open the device before anything else is done with torch.",
            )

    @property
    def recorder(self) -> Recorder:
        """What was called, after ``finish``."""
        assert self._recording is not None, "the device was never open"
        return self._recording.recorder

    def __enter__(self) -> Self:
        with ExitStack() as exits:
            found = exits.enter_context(registered(self.chain, self.attribution))
            exits.enter_context(mps_surface(self._chip))
            exits.enter_context(self.attribution)
            self._recording = Recording(found, lines=self._lines, keep_going=self._keep_going)
            exits.callback(self._recording.stop)
            self._recording.start()
            if self._cpu:
                exits.callback(follow, False)
                follow(True)
            exits.enter_context(optimizers_followed(torch.ops.mpsprobe.in_optimizer))
            exits.callback(_open.remove, self)
            _open.append(self)
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._exits.__exit__(*error)

    @property
    def threads(self) -> int:
        """How many threads of the program called operators."""
        number: int = torch.ops.mpsprobe.threads()
        return number

    def on_cpu(self) -> OnCpu:
        assert self._recording is not None
        return seen(self._recording.place_of)

    def taken(self) -> Recorder:
        """What was called since this was last asked; it is not in ``recorder`` then."""
        assert self._recording is not None
        return self._recording.taken()

    def finish(self) -> None:
        """Bring what was counted into ``recorder``; the device may stay open."""
        assert self._recording is not None
        self._recording.take()


def native_device_now() -> NativeDevice | None:
    """The one that is open in this process."""
    return _open[-1] if _open else None


def _await_autograd() -> None:
    """Before Python ends: a thread of autograd that frees its objects later aborts the process (``ending.cpp``)."""
    torch.ops.mpsprobe.await_autograd()
