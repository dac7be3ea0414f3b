"""The processor: always there, always done when it returns, and without an allocator that counts."""

from __future__ import annotations

import psutil
import torch

from mpsprobe.schemas import DeviceInfo
from mpsprobe_devices.machine import capabilities, processor_name
from mpsprobe_devices.torch_device import TorchDevice

# torch.cpu.get_capabilities names instructions with these letters in them: avx512_bf16, amx_bf16, bf16, fp16_arith, …
FAST = {"bfloat16": "bf16", "float16": "fp16"}


class CpuDevice(TorchDevice):
    name = "cpu"

    def unavailable(self) -> str | None:
        return None

    def describe(self) -> DeviceInfo:
        facts = {
            "torch": torch.__version__,
            "threads": str(torch.get_num_threads()),
            "instructions": str(torch.backends.cpu.get_cpu_capability()),
        }
        if instructions := capabilities():
            for dtype, letters in FAST.items():
                helpful = [name for name, there in instructions.items() if there is True and letters in name]
                facts[dtype] = ", ".join(sorted(helpful)) or "no instructions"
        memory = psutil.virtual_memory().total
        return DeviceInfo(type=self.name, name=processor_name(), memory_bytes=memory, capabilities=facts)

    def synchronize(self) -> None:
        """Nothing to wait for: operators on the CPU return when they are done."""

    def clock_unavailable(self) -> str | None:
        return "operators run on the host itself, whose clock times them"
