"""The virtual device, open, for those who call torch themselves: tests, notebooks. Not needed by a scan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Self

import torch

from mpsprobe.schemas import SEVERITY
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.table import KernelTable


class OpenDevice:
    """Satisfies ``mpsprobe_devkit.testing.OpenDevice``.

    Args:
        table: of the release to judge.
    """

    def __init__(self, table: KernelTable) -> None:
        self.release = table.release
        self.name = table.backend.device
        self._device = VirtualDevice(Chain(table, table.family.loaded_libraries(table.release)))

    def __enter__(self) -> Self:
        self._device.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._device.__exit__(*error)

    def run(self, function: Callable[..., Any], *arguments: Any, phase: str = "forward", **named: Any) -> Any:
        """``function(*arguments, **named)`` on the device, each call of an operator recorded and judged."""
        if isinstance(function, torch.nn.Module):
            function = self.move(function)
        moved, also = self.move(arguments), self.move(named)
        with self._device.recording(phase):
            return function(*moved, **also)

    def move(self, value: Any) -> Any:
        """``value`` on the device: a module, or tensors nested in lists, mappings and dataclasses."""
        return self._device.move(value)

    def construction(self) -> AbstractContextManager[Any]:
        """In here a model is made without memory for its parameters."""
        return self._device.construction()

    def verdicts(self) -> dict[str, str]:
        """The verdict of each operator that was called; of several the worst."""
        best_first: tuple[str, ...] = tuple(SEVERITY)
        worst: dict[str, str] = {}
        for record in self._device.recorder.calls():
            verdict = record.judgement.verdict
            worst[record.operator] = max(worst.get(record.operator, verdict), verdict, key=best_first.index)
        return worst

    def calls(self) -> dict[str, int]:
        """How often each operator was called."""
        calls: Counter[str] = Counter()
        for record in self._device.recorder.calls():
            calls[record.operator] += record.calls
        return dict(calls)

    def reasons(self) -> dict[str, str]:
        """Why an operator has its verdict, in a sentence, where there is more to say than that."""
        worst = self.verdicts()
        judged = [(record.operator, record.judgement) for record in self._device.recorder.calls()]
        return {
            operator: judgement.reason
            for operator, judgement in judged
            if judgement.reason is not None and judgement.verdict == worst[operator]
        }

    def not_judged(self) -> dict[str, str]:
        """Operators that no table covers, and what could not be followed, each with the reason."""
        return {note.operator: note.text for note in self._device.recorder.not_judged()}
