"""``observe("mps")`` where torch has no MPS: what a virtual device records between ``with``'s ends.

That is the device that is open (of ``mpsprobe run``, of a marked test). Where none is, one is opened for as long as the
observation lasts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple, Self

import torch

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import CoverageReport, WorkloadInfo
from mpsprobe_coverage.devices.native.device import NativeDevice, native_device_now
from mpsprobe_coverage.devices.observed.observe import Happened, Kind, ObservedCall
from mpsprobe_coverage.devices.virtual import VirtualDevice, device_now
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.programs.in_python import DeviceInPython
from mpsprobe_coverage.recording.recorder import Recorder
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.reports import single
from mpsprobe_coverage.scanning.tracing import chain_for

OPTIONS = RunOptions(phase="program")
THREAD = "the device that this observation opened belongs to another thread"


class _Window(NamedTuple):
    """A device that is watched, and what it had counted when that began."""

    device: NativeDevice | VirtualDevice
    mark: Mapping[int, int]


class OnVirtual:
    """The calls on a virtual device while this is open; it may be opened again, nested, and on several threads.

    Args:
        release: of torch, to judge, for the device that it opens; ``None``: the installed one.

    Attributes:
        recorder: what was called, after ``finish`` or the end of ``with``.

    Raises:
        UsageError: there is no such release.
    """

    def __init__(self, release: str | None) -> None:
        self.recorder = Recorder()
        self._asked = release
        self._table = MPS_FAMILY.target(release or "installed")
        self._chain: Chain = chain_for(self._table, OPTIONS)
        self._lock = threading.RLock()
        self._depth = 0
        self._window: _Window | None = None
        self._own: ExitStack | None = None
        self._owner = 0

    def __enter__(self) -> Self:
        with self._lock:
            if self._depth == 0:
                self._open()
            self._depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._depth == 1:
                if self._own is not None and self._owner != threading.get_ident():
                    raise UsageError(THREAD, "Close it there.")
                self.finish()
                self._window = None
                own, self._own = self._own, None
                if own is not None:
                    own.close()
            self._depth -= 1

    def finish(self) -> None:
        """Bring what was counted up to now into ``recorder``; this may stay open."""
        with self._lock:
            if self._window is None:
                return
            device, mark = self._window
            recorder = _counted(device)
            recorder.since(mark, self.recorder)
            self._window = _Window(device, recorder.marked())

    def calls(self) -> Iterator[ObservedCall]:
        """Each kind of call on the device, with the judgement; nothing of a real device was seen."""
        for one in self.recorder.calls():
            kind = Kind(one.operator, "mps", one.phase, one.origin, Happened(0), one.inputs, one.outputs)
            yield ObservedCall(kind, one.judgement, one.calls)

    def report(self, name: str) -> CoverageReport:
        """What was called, judged; ``method`` is ``predicted``."""
        info = WorkloadInfo(name=name, architecture="", phase="program", dtype="", parameters=0)
        return single(info, OPTIONS, Trace(self._table, self.recorder, {}, None, 0, 0), None)

    def _open(self) -> None:
        device = native_device_now() or device_now()
        if device is None:
            device = self._opened()
        elif self._asked is not None and device.chain.table.release != self._table.release:
            release = device.chain.table.release
            raise UsageError(
                f"the virtual MPS device that is open judges torch {release}, not {self._table.release}",
                "Leave torch= out, or close that device first.",
            )
        self._table = device.chain.table
        self._window = _Window(device, _counted(device).marked())

    def _opened(self) -> VirtualDevice:
        with ExitStack() as exits:
            own = DeviceInPython(self._chain, values=True)
            own.attribution.follow_program(lambda root: None)
            # The device puts the state of random numbers back; what is drawn inside is the program's own.
            exits.callback(lambda: torch.set_rng_state(drawn[0]))
            drawn: list[torch.Tensor] = []
            exits.enter_context(own)
            exits.callback(lambda: drawn.append(torch.get_rng_state()))
            exits.callback(own.finish)
            self._own, self._owner = exits.pop_all(), threading.get_ident()
        return own.device


def _counted(device: NativeDevice | VirtualDevice) -> Recorder:
    if isinstance(device, NativeDevice):
        device.finish()
    return device.recorder
