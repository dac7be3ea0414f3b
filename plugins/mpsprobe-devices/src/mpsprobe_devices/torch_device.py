"""What the three devices share: building a workload there, stepping it, and timing by events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_map

from mpsprobe.errors import UsageError
from mpsprobe.protocols import Device, RunOptions, TorchRun, Workload
from mpsprobe.stepping import TorchStep, built, settled, workload_info
from mpsprobe.suggestions import said


class EventStopwatch:
    """Two events that the device passes, one before and one after; ``make`` makes them (``torch.cuda.Event``)."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def start(self) -> None:
        self._begin, self._end = self._make(), self._make()
        self._begin.record()

    def stop(self) -> float:
        self._end.record()
        self._end.synchronize()
        return float(self._begin.elapsed_time(self._end)) * 1e6


class TorchDevice(Device):
    """What a device of torch has; one whose allocator counts is also ``probes.memory.CountsMemory``."""

    def empty_cache(self) -> None:
        """Give memory that no tensor holds back to the system, where any is kept."""

    def clock_unavailable(self) -> str | None:
        """Why steps cannot be timed by the device's own clock, in a sentence; ``None`` where they can."""
        return None

    def stopwatch(self) -> EventStopwatch:
        """What times by the device's own clock; a ``UsageError`` where there is none that can be trusted.

        Events in the current stream of CUDA (what a step does in other streams is not in their time), in the default
        stream of MPS: from the end of the command buffer before to the end of the last one.
        """
        if (reason := self.clock_unavailable()) is not None:
            raise UsageError(reason)
        return EventStopwatch(partial(getattr(torch, self.name).Event, enable_timing=True))

    def is_out_of_memory(self, error: BaseException) -> bool:
        # torch.OutOfMemoryError has been public since 2.5; MPS raised a plain RuntimeError before 2.8.
        return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "out of memory" in said(error).lower()

    def open(self, workload: Workload, options: RunOptions, *, compiled: bool = False) -> TorchSteps:
        """Build ``workload`` in host memory, as everyone does, and move it here."""
        run = built(workload, options)
        run.model = run.model.to(self.name)
        run = settled(run, options, self.name, partial(move, device=self.name))
        return TorchSteps(workload.name, run, options, self, compiled=compiled)


class TorchSteps:
    """Satisfies ``mpsprobe.protocols.Steps``. ``compiled``: run the model through ``torch.compile``."""

    def __init__(
        self, name: str, run: TorchRun, options: RunOptions, device: TorchDevice, *, compiled: bool = False
    ) -> None:
        self._device = device
        self._step = TorchStep(run, options, device.name)
        self.info = workload_info(name, run, options, self._step.optimizer)
        self.model: Any = run.model
        if compiled:
            run.model = torch.compile(run.model)

    def step(self) -> None:
        first = self._step.notes is None
        self._step.take()
        if first:
            self.info.notes.extend(self._step.notes or ())

    def phases(self) -> Mapping[str, int]:
        """One whole step, synchronised after each phase: ns by phase, summed over the passes that are accumulated."""
        spent: dict[str, int] = {}

        @contextmanager
        def timed(phase: str) -> Iterator[None]:
            self._device.synchronize()
            start = time.perf_counter_ns()
            yield
            self._device.synchronize()
            spent[phase] = spent.get(phase, 0) + time.perf_counter_ns() - start

        self._step.take(timed)
        return spent

    def close(self) -> None:
        """Forget model, inputs and optimizer, and give the device's memory back."""
        self._step, self.model = TorchStep(TorchRun(torch.nn.Identity()), RunOptions(), self._device.name), None
        self._device.empty_cache()


def move(value: Any, device: str) -> Any:
    return tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, value)
