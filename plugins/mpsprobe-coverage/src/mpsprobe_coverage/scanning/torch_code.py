"""Code that calls torch itself, on a virtual device: that of tests and notebooks, and the body of a marked test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Self

import torch

from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import SEVERITY, CoverageReport, Verdict, WorkloadInfo
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.reports import check_macos, single
from mpsprobe_coverage.scanning.tracing import chain_for

PHASE = "forward"


class OpenDevice(ExitStack):
    """Satisfies ``mpsprobe_devkit.testing.OpenDevice``; ``table`` is of the release to judge."""

    def __init__(self, table: KernelTable) -> None:
        super().__init__()
        self.release = table.release
        self.name = table.backend.device
        self._device = VirtualDevice(chain_for(table, RunOptions()))

    def __enter__(self) -> Self:
        self.enter_context(self._device)
        return self

    def run(self, function: Callable[..., Any], *arguments: Any, phase: str = PHASE, **named: Any) -> Any:
        if isinstance(function, torch.nn.Module):
            function = self.move(function)
        moved, also = self.move(arguments), self.move(named)
        with self._device.recording(phase):
            return function(*moved, **also)

    def move(self, value: Any) -> Any:
        return self._device.move(value)

    def construction(self) -> AbstractContextManager[Any]:
        return self._device.construction()

    def verdicts(self) -> dict[str, Verdict]:
        worst: dict[str, Verdict] = {}
        for record in self._device.recorder.calls():
            verdict = record.judgement.verdict
            worst[record.operator] = max(worst.get(record.operator, verdict), verdict, key=SEVERITY.__getitem__)
        return worst

    def calls(self) -> dict[str, int]:
        calls: Counter[str] = Counter()
        for record in self._device.recorder.calls():
            calls[record.operator] += record.calls
        return dict(calls)

    def reasons(self) -> dict[str, str]:
        worst = self.verdicts()
        reasons = {}
        for record in self._device.recorder.calls():
            if record.judgement.reason is not None and record.judgement.verdict == worst[record.operator]:
                reasons[record.operator] = record.judgement.reason
        return reasons

    def not_judged(self) -> dict[str, str]:
        return {note.operator: note.text for note in self._device.recorder.not_judged()}


class Watched(ExitStack):
    """A virtual device on which everything is computed by the CPU, open between ``with``'s ends.

    Raises:
        UsageError: there is no such release, or it does not run on that macOS.
    """

    def __init__(self, release: str, macos: str | None = None) -> None:
        super().__init__()
        self._table = MPS_FAMILY.target(release)
        self._options = RunOptions(phase="program", weights=True, macos=macos)
        if macos is not None:
            check_macos(macos, self._table)
        self._device = VirtualDevice(chain_for(self._table, self._options), keep_weights=True)

    def __enter__(self) -> Self:
        self.enter_context(self._device)
        self.enter_context(self._device.recording(PHASE))
        return self

    def report(self, name: str) -> CoverageReport:
        """What was called, as a report; ``name`` is what it calls the code."""
        info = WorkloadInfo(name=name, architecture="", phase="program", dtype="", parameters=0)
        trace = Trace(self._table, self._device.recorder, self._device.calls(), None, 0, 0)
        return single(info, self._options, trace, None)
