"""What ``mpsprobe.observe`` returns: an observation of a real device, or of the virtual one where torch has no MPS.

Its report is of the kind that predictions have, with ``method: observed`` where a real device was seen.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Self

import torch
from packaging.version import Version

from mpsprobe.errors import UsageError
from mpsprobe.protocols import Backend, MacOptions, RunOptions
from mpsprobe.schemas import BackendTarget, CoverageReport, OperatorFinding, WorkloadInfo
from mpsprobe_coverage.devices.native.device import NativeDevice, native_device_now
from mpsprobe_coverage.devices.observed.observe import Happened, Kind, Observation, ObservedCall, disagreements
from mpsprobe_coverage.devices.virtual import VirtualDevice, device_now
from mpsprobe_coverage.knowledge.kernels import live
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY, live_table
from mpsprobe_coverage.knowledge.kernels.releases import installed_release
from mpsprobe_coverage.knowledge.kernels.table import KernelFamily, KernelTable
from mpsprobe_coverage.programs.program_device import DeviceInPython
from mpsprobe_coverage.recording.recorder import Recorder
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.findings import findings
from mpsprobe_coverage.reporting.reports import check_macos, reported, single
from mpsprobe_coverage.scanning.tracing import chain_for

MPS = "mps"
SOURCE = "the calls that were seen"
NOT_MPS = (
    "This was observed on {label}: native says that a call ran there, and nothing about MPS. What MPS does, "
    "mpsprobe coverage and mpsprobe run predict, and an observation on a Mac shows"
)
ELSEWHERE = "{calls} calls had tensors only on {device}, and are not in this report"
MOVED = "{reason}; the calls copied {there} bytes to the CPU and {back} bytes back"
THREAD = "the device that this observation opened belongs to another thread"


class ObservedFamily(KernelFamily):
    """The installed release alone, on a device of which only is known what was seen."""

    owner = "the installed torch"

    def __init__(self, device: str) -> None:
        self.name = device
        self.backend = Backend(device, device.upper(), device.upper() if device in ("cpu", "cuda", "xpu") else device)

    @property
    def releases(self) -> tuple[str, ...]:
        return (installed_release(),)

    def load(self, release: str) -> KernelTable:
        return KernelTable(self, Version(release).public, live.labels(), whole=False, source=SOURCE)

    def running(self) -> KernelTable:
        return self.load(installed_release())

    def report_target(self, table: KernelTable, macos: str | None) -> BackendTarget:
        del macos
        label = self.backend.label
        return BackendTarget(
            backend=self.name, label=label, torch=table.release, source=SOURCE, notes=[NOT_MPS.format(label=label)]
        )


def report(observation: Observation, name: str, profile_log: str | None = None) -> CoverageReport:
    """What ``observation`` has seen on its device.

    Args:
        name: what ran, as the user calls it.
        profile_log: what PyTorch's profiler wrote meanwhile (``profile_log.py``); where it differs, a note says so.

    Raises:
        UsageError: its device is a virtual one.
    """
    if observation.name != MPS:
        table = ObservedFamily(observation.name).running()
    elif live.has_mps_build():
        table = live_table()
    else:
        raise UsageError("this torch has no MPS, so that nothing was observed on it", "mpsprobe run predicts instead.")
    differing = []
    if profile_log is not None:
        differing = disagreements([(call.kind, call.calls) for call in observation.calls()], profile_log)
    info = _program(name, [*differing, *limits(observation)])
    operators = operator_findings(observation, table)
    return reported(observation.recorder, table, info, mac=MacOptions(), operators=operators, method="observed")


def limits(observation: Observation) -> list[str]:
    """What was seen and is not in the report, in sentences."""
    elsewhere: Counter[str] = Counter()
    for call in observation.calls():
        if call.kind.device != observation.name:
            elsewhere[call.kind.device] += call.calls
    return [ELSEWHERE.format(calls=calls, device=device) for device, calls in elsewhere.most_common()]


def operator_findings(observation: Observation, table: KernelTable) -> list[OperatorFinding]:
    """One finding for each operator and verdict; those of fallbacks say how many bytes were copied.

    Advice is given where releases are known in which the operator has a kernel, so for MPS alone.
    """
    there: Counter[tuple[str, str]] = Counter()
    back: Counter[tuple[str, str]] = Counter()
    for call in observation.calls():
        if call.judgement is not None and call.kind.device == observation.name:
            key = call.kind.operator, call.judgement.verdict
            there[key] += call.to_cpu_bytes
            back[key] += call.from_cpu_bytes

    def with_copies(finding: OperatorFinding) -> OperatorFinding:
        if finding.verdict not in ("fallback", "missing"):
            return finding
        key = finding.operator, finding.verdict
        since = MPS_FAMILY.native_since(finding.operator) if table.family is MPS_FAMILY else None
        moved = {
            "reason": MOVED.format(reason=finding.reason, there=there[key], back=back[key]),
            "native_since": since,
            "advice": f"Native from torch {since} on: upgrade." if since else None,
        }
        return finding.model_copy(update=moved)

    return [with_copies(finding) for finding in findings(observation.recorder, table)]


class Observed(Observation):
    """What ``observe`` sees while it is open; it can be opened again, nested, and opened on several threads."""

    def report(self, name: str = "observed") -> CoverageReport:
        """What was seen up to now; durations are not in it, bytes are those of tensors.

        ``method`` is ``observed``, and ``predicted`` on a virtual device, whose calls are judged by the kernel table.

        Args:
            name: what the report calls it.
        """
        self.finish()
        return report(self, name)


class ObservedVirtual(Observed):
    """The calls on a virtual device: the one that is open (of ``mpsprobe run``, of a marked test), else one of its own.

    That judges ``release`` on ``macos``; ``None``: the installed torch, a new macOS.
    """

    def __init__(self, release: str | None, macos: str | None = None) -> None:
        super().__init__(MPS, lines=True)
        self._asked = release
        self._table = MPS_FAMILY.target(release or "installed")
        if macos is not None:
            check_macos(macos, self._table)
        self._options = RunOptions(phase="program", macos=macos)
        self._chain = chain_for(self._table, self._options)
        self._lock = threading.RLock()
        self._depth = 0
        self._device: NativeDevice | VirtualDevice | None = None  # the one that is watched
        self._mark: Mapping[int, int] = {}  # what it had counted when that began
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
                self._device = None
                own, self._own = self._own, None
                if own is not None:
                    own.close()
            self._depth -= 1

    def finish(self) -> None:
        with self._lock:
            if self._device is not None:
                recorder = _counted(self._device)
                recorder.since(self._mark, self.recorder)
                self._mark = recorder.marked()

    def calls(self) -> Iterator[ObservedCall]:
        """Each kind of call on the device, with the judgement; nothing of a real device was seen."""
        for call in self.recorder.calls():
            kind = Kind(call.operator, MPS, call.phase, call.origin, Happened(0), call.inputs, call.outputs)
            yield ObservedCall(kind, call.judgement, call.calls)

    def report(self, name: str = "observed") -> CoverageReport:
        self.finish()
        return single(_program(name), self._options, Trace(self._table, self.recorder, {}, None, 0, 0), None)

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
        self._mark = _counted(device).marked()
        self._device = device

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


def _program(name: str, notes: list[str] | None = None) -> WorkloadInfo:
    return WorkloadInfo(name=name, architecture="", phase="program", dtype="", parameters=0, notes=notes or [])
