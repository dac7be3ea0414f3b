"""The native device of one release, open."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any, NamedTuple, Self

import torch

from mpsprobe.errors import UsageError
from mpsprobe_coverage.devices.compiling import DEVICE
from mpsprobe_coverage.devices.native.recording import Recording
from mpsprobe_coverage.devices.native.registering import registered
from mpsprobe_coverage.devices.native.surface import mps_surface
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.recording.attribution import Attribution, Origin
from mpsprobe_coverage.recording.phases import optimizers_followed
from mpsprobe_coverage.recording.recorder import Recorder

_WORDS = 5  # of one site
_MOVED, _FROM_DEVICE, _WEIGHTS = 1, 2, 4
_open: list[NativeDevice] = []


# Calls with tensors of the CPU alone, and where their results went, as C++ saw them (`on_cpu.cpp`).
class Site(NamedTuple):
    operator: str
    phase: str
    origin: Origin
    calls: int
    data_bytes: int  # what they read and wrote
    moved: bool = False  # results of theirs came to the device
    from_device: bool = False  # they read what was copied from there
    weights: bool = False  # they read tensors that require a gradient


class OnCpu(NamedTuple):
    sites: Sequence[Site] = ()  # each once
    flows: Iterable[tuple[int, int]] = ()  # positions in ``sites``: the second has read what the first wrote
    device_bytes: int = 0  # what calls on the device read and wrote


def _seen(place_of: Callable[[int], tuple[str, Origin]]) -> OnCpu:
    words, names, pairs, device_bytes = torch.ops.mpsprobe.on_cpu()
    sites = []
    for position in range(0, len(words), _WORDS):
        place, name, calls, data_bytes, flags = words[position : position + _WORDS]
        happened = (bool(flags & one) for one in (_MOVED, _FROM_DEVICE, _WEIGHTS))
        sites.append(Site(names[name], *place_of(place), calls, data_bytes, *happened))
    return OnCpu(sites, list(zip(pairs[::2], pairs[1::2], strict=True)), device_bytes)


@cache
def _stop_in_children() -> None:
    """A forked process sees no such calls."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: torch.ops.mpsprobe.follow_cpu(False))


class NativeDevice:
    """Tensors on ``mps:0`` in C++ too, with values, computed by the CPU; every call is judged.

    C++ knows one device of this type in a process, for as long as the process lives; ``with`` is for the kernels, and
    for what is recorded. ``UsageError`` where it cannot be built, or torch has looked for MPS in this process.

    ``keep_going``: what a Mac refuses is computed anyway. ``lines``: record the module and the line of every call.
    ``cpu``: also follow what is computed with tensors of the CPU alone. ``chip``: that ``torch.mps`` answers for.
    """

    name = "virtual"

    def __init__(
        self, chain: Chain, *, keep_going: bool = True, lines: bool = True, cpu: bool = False, chip: str | None = None
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
        assert self._recording is not None, "the device was never open"
        return self._recording.recorder

    def __enter__(self) -> Self:
        operators = torch.ops.mpsprobe
        with ExitStack() as exits:
            kernels = exits.enter_context(registered(self.chain, self.attribution))
            exits.enter_context(mps_surface(self._chip))
            exits.enter_context(self.attribution)
            self._recording = Recording(kernels, lines=self._lines, keep_going=self._keep_going)
            exits.callback(self._recording.stop)
            self._recording.start()
            if self._cpu:
                _stop_in_children()
                exits.callback(operators.follow_cpu, False)
                operators.follow_cpu(True)
            exits.enter_context(optimizers_followed(operators.in_optimizer))
            exits.callback(_open.remove, self)
            _open.append(self)
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._exits.__exit__(*error)

    @property
    def threads(self) -> int:
        number: int = torch.ops.mpsprobe.threads()
        return number

    def on_cpu(self) -> OnCpu:
        assert self._recording is not None
        return _seen(self._recording.place_of)

    def taken(self) -> Recorder:
        """What was called since this was last asked; it is not in ``recorder`` then."""
        assert self._recording is not None
        return self._recording.taken()

    def finish(self) -> None:
        assert self._recording is not None
        self._recording.take()


def native_device_now() -> NativeDevice | None:
    return _open[-1] if _open else None


def _await_autograd() -> None:
    """Before Python ends: a thread of autograd that frees its objects later aborts the process (``ending.cpp``)."""
    torch.ops.mpsprobe.await_autograd()
