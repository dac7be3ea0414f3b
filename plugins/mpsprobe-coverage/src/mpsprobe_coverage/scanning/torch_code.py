"""Code that calls torch itself, judged: the body of a test runs on the virtual device, with values."""

from __future__ import annotations

from typing import Any, Self

from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import CoverageReport, WorkloadInfo
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.macos import check_macos
from mpsprobe_coverage.reporting.reports import single
from mpsprobe_coverage.scanning.scan import chain_for

PHASE = "forward"


class Watched:
    """A virtual device on which everything is computed by the CPU, open between ``with``'s ends.

    Args:
        release: of torch, to judge: ``2.13.0``, ``2.13``, ``installed``, ``latest``.
        macos: the version to judge for; ``None`` for a new one.

    Raises:
        UsageError: there is no such release, or it does not run on that macOS.
    """

    def __init__(self, release: str, macos: str | None = None) -> None:
        self._table = MPS_FAMILY.target(release)
        self._options = RunOptions(phase="program", weights=True, macos=macos)
        if macos is not None:
            check_macos(macos, self._table)
        self._device = VirtualDevice(chain_for(self._table, self._options), keep_weights=True)
        self._recording: Any = None

    def __enter__(self) -> Self:
        self._device.__enter__()
        self._recording = self._device.recording(PHASE)
        self._recording.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._recording.__exit__(*error)
        self._device.__exit__(*error)

    def report(self, name: str) -> CoverageReport:
        """What was called, as a report; ``name`` is what it calls the code."""
        info = WorkloadInfo(name=name, architecture="", phase="program", dtype="", parameters=0)
        trace = Trace(self._table, self._device.recorder, self._device.calls(), None, 0, 0)
        return single(info, self._options, trace, None)
