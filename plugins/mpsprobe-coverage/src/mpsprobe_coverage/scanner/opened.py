"""The virtual device, open, for those who call torch themselves: tests, notebooks. Not needed by a scan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

import torch

from mpsprobe.schemas import SEVERITY
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.table import KernelTable
from mpsprobe_coverage.scanner.targets import libraries_for


class OpenDevice:
    """Satisfies ``mpsprobe_devkit.testing.OpenDevice``.

    Args:
        table: of the release to judge.
    """

    def __init__(self, table: KernelTable) -> None:
        self.release = table.release
        self.name = table.backend.device
        self._device = VirtualDevice(table, libraries_for(table))

    def __enter__(self) -> Self:
        self._device.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._device.__exit__(kind, error, trace)

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
            before = worst.get(record.operator, record.verdict)
            worst[record.operator] = max(before, record.verdict, key=best_first.index)
        return worst

    def calls(self) -> dict[str, int]:
        """How often each operator was called."""
        found: Counter[str] = Counter()
        for record in self._device.recorder.calls():
            found[record.operator] += record.calls
        return dict(found)

    def reasons(self) -> dict[str, str]:
        """Why an operator has its verdict, in a sentence, where there is more to say than that."""
        worst = self.verdicts()
        records = [one for one in self._device.recorder.calls() if one.verdict == worst[one.operator]]
        return {one.operator: str(one.reason) for one in records if one.reason is not None}

    def not_judged(self) -> dict[str, str]:
        """Operators that no table covers, and what could not be followed, each with the reason."""
        return {note.operator: note.text for note in self._device.recorder.not_judged()}
