"""What the three devices share: building a workload there, how memory is read, and what else they may tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun, Workload
from mpsprobe_devices.torch_steps import TorchSteps, move

if TYPE_CHECKING:
    from mpsprobe.schemas import DeviceInfo


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: what tensors hold, and what the allocator has taken for them; ``None`` where the device does not tell."""

    allocated: int | None
    reserved: int | None


class EventStopwatch:
    """Satisfies ``mpsprobe.protocols.Stopwatch``: two events that the device passes, one before and one after.

    Args:
        make: makes an event that takes the time, as ``torch.cuda.Event`` and ``torch.mps.Event`` do.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def start(self) -> None:
        """Put the first event behind what the device has been asked to do."""
        self._begin, self._end = self._make(), self._make()
        self._begin.record()

    def stop(self) -> float:
        """Put the second one behind what it was asked since, wait for it: ns from one to the other."""
        self._end.record()
        self._end.synchronize()
        return float(self._begin.elapsed_time(self._end)) * 1e6


class TorchDevice:
    """A device of torch. Subclasses say how it is asked; ``name`` is torch's name of its type."""

    name: str

    def unavailable(self) -> str | None:
        """Why it cannot be used here, in a sentence; ``None`` where it can."""
        raise NotImplementedError

    def describe(self) -> DeviceInfo:
        """What it is."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait until everything that was asked of it is done."""
        raise NotImplementedError

    def memory(self) -> Memory:
        """What is in use now; nothing where the allocator does not count."""
        return Memory(None, None)

    def reset_peak(self) -> bool:
        """Begin a new measurement of the peak; False where the allocator keeps none."""
        return False

    def peak(self) -> Memory:
        """The largest values since ``reset_peak``."""
        return Memory(None, None)

    def empty_cache(self) -> None:
        """Give memory that no tensor holds back to the system, where any is kept."""

    def clock_unavailable(self) -> str | None:
        """Why steps cannot be timed by the device's own clock, in a sentence; ``None`` where they can."""
        return f"{self.name} has no clock of its own"

    def stopwatch(self) -> EventStopwatch:
        """What times by the device's own clock.

        Raises:
            UsageError: there is none that can be trusted.
        """
        raise UsageError(self.clock_unavailable() or f"{self.name} has no clock of its own")

    def state(self) -> Mapping[str, float | str]:
        """Heat, power and clocks now, by name with the unit in it; ``…_throttled_ns`` are counters.

        Raises:
            Exception: it cannot be asked; the message says why.
        """
        return {}

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether ``error`` says that there is no more memory."""
        # torch.OutOfMemoryError has been public since 2.5; MPS raised a plain RuntimeError before 2.8.
        return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "out of memory" in str(error).lower()

    def open(self, workload: Workload, options: RunOptions, *, compiled: bool = False) -> TorchSteps:
        """Build ``workload`` in host memory, as everyone does, and move it here.

        Raises:
            WorkloadError: it did not build a torch workload.
        """
        run = workload.build(options)
        if not isinstance(run, TorchRun):
            raise WorkloadError(f"'{workload.name}' did not build a TorchRun, but {type(run).__name__}")
        run.model = run.model.to(self.name)
        run.args, run.kwargs = move(run.args, self.name), move(dict(run.kwargs), self.name)
        return TorchSteps(workload.name, run, options, self, compiled=compiled)
