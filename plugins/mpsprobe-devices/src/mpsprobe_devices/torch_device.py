"""What the three devices share: building a workload there, and how memory is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun, Workload
from mpsprobe_devices.torch_steps import TorchSteps, move

if TYPE_CHECKING:
    from mpsprobe.schemas import DeviceInfo


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: what tensors hold, and what the allocator has taken for them; ``None`` where the device does not tell."""

    allocated: int | None
    reserved: int | None


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
        """What is in use now."""
        raise NotImplementedError

    def reset_peak(self) -> bool:
        """Begin a new measurement of the peak; False where the allocator keeps none."""
        raise NotImplementedError

    def peak(self) -> Memory:
        """The largest values since ``reset_peak``."""
        raise NotImplementedError

    def empty_cache(self) -> None:
        """Give memory that no tensor holds back to the system."""
        raise NotImplementedError

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


def first_line(error: BaseException) -> str:
    """The first line of what an error says."""
    lines: list[Any] = str(error).strip().splitlines()
    return str(lines[0]) if lines else type(error).__name__
