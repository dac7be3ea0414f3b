"""The processor: always there, always done when it returns, and without an allocator that counts."""

from __future__ import annotations

import platform

import torch

from mpsprobe.schemas import DeviceInfo
from mpsprobe_devices.torch_device import Memory, TorchDevice


class CpuDevice(TorchDevice):
    """Satisfies ``mpsprobe.protocols.Device``."""

    name = "cpu"

    def unavailable(self) -> str | None:
        """None: it is always there."""
        return None

    def describe(self) -> DeviceInfo:
        """The processor's name, how many threads torch uses, and which vector instructions."""
        capabilities = {
            "threads": str(torch.get_num_threads()),
            "instructions": str(torch.backends.cpu.get_cpu_capability()),
        }
        return DeviceInfo(
            type=self.name, name=platform.processor() or platform.machine() or "CPU", capabilities=capabilities
        )

    def synchronize(self) -> None:
        """Nothing to wait for: operators on the CPU return when they are done."""

    def memory(self) -> Memory:
        """Nothing: the CPU's allocator does not count."""
        return Memory(None, None)

    def reset_peak(self) -> bool:
        """False."""
        return False

    def peak(self) -> Memory:
        """Nothing."""
        return Memory(None, None)

    def empty_cache(self) -> None:
        """Nothing is kept."""
