"""The virtual device, open, for code that calls torch itself: tests and notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Self

import torch

from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import SEVERITY, Verdict
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
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
