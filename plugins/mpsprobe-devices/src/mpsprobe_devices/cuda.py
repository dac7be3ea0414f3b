"""An NVIDIA GPU, or an AMD one in a build of torch for ROCm: the same functions.

Heat and clocks come from NVIDIA's driver, through ``nvidia-ml-py``, which torch's own functions for them need too.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch

from mpsprobe.errors import UsageError, install_command
from mpsprobe.schemas import DeviceInfo
from mpsprobe.suggestions import first_line
from mpsprobe_devices.machine import Memory
from mpsprobe_devices.torch_device import TorchDevice

# Of torch.cuda.memory_stats: one call gives both, two would cost twice as much.
ALLOCATED, RESERVED = "allocated_bytes.all.current", "reserved_bytes.all.current"


class CudaDevice(TorchDevice):
    """The current device of torch, as ``CUDA_VISIBLE_DEVICES`` leaves it."""

    name = "cuda"

    def unavailable(self) -> str | None:
        if torch.version.cuda is None and torch.version.hip is None:
            return f"torch {torch.__version__} was built without CUDA"
        if torch.cuda.is_available():
            return None
        try:
            torch.cuda.current_device()  # says why, where is_available only says no
        except (RuntimeError, AssertionError) as error:
            return first_line(error)
        return "torch sees no GPU"

    def describe(self) -> DeviceInfo:
        gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
        capabilities = {
            "compute_capability": f"{gpu.major}.{gpu.minor}",
            "multiprocessors": str(gpu.multi_processor_count),
            "runtime": str(torch.version.cuda or torch.version.hip),
            "torch": torch.__version__,
            "bfloat16": "yes" if torch.cuda.is_bf16_supported(including_emulation=False) else "emulated or not at all",
            "float16": "yes" if (gpu.major, gpu.minor) >= (5, 3) else "no",
        }
        with suppress(AttributeError, RuntimeError):  # not every release of torch says it
            capabilities["tf32"] = "on" if torch.backends.cuda.matmul.allow_tf32 else "off"
        with suppress(RuntimeError):  # of another version than torch was built with
            capabilities |= {"cudnn": str(version)} if (version := torch.backends.cudnn.version()) is not None else {}
        return DeviceInfo(type=self.name, name=gpu.name, memory_bytes=gpu.total_memory, capabilities=capabilities)

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def memory(self) -> Memory:
        statistics = torch.cuda.memory_stats()
        return Memory(statistics.get(ALLOCATED, 0), statistics.get(RESERVED, 0))

    def reset_peak(self) -> bool:
        torch.cuda.reset_peak_memory_stats()
        return True

    def peak(self) -> Memory:
        return Memory(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())

    def empty_cache(self) -> None:
        torch.cuda.empty_cache()

    def index(self) -> int:
        return int(torch.cuda.current_device())

    def state(self) -> Mapping[str, float | str]:
        """Temperature, power, clock, and for how long heat or the power limit held the clocks down (counters)."""
        try:
            driver = importlib.import_module("pynvml")
        except ImportError:
            command = install_command("mpsprobe-devices[nvidia]")
            raise UsageError(f"the GPU's state needs nvidia-ml-py: {command}") from None
        state: dict[str, float | str] = {
            "gpu_celsius": float(torch.cuda.temperature()),
            "gpu_mw": float(torch.cuda.power_draw()),
            "gpu_mhz": float(torch.cuda.clock_rate()),
        }
        try:
            return state | _throttled(driver)
        except Exception:  # noqa: BLE001 - not every GPU counts this, and the driver has errors of its own
            return state


def _throttled(driver: Any) -> dict[str, float]:
    """ns since the driver was loaded that the GPU was below its clocks, by cause."""
    uuid = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
    driver.nvmlInit()
    try:
        handle = driver.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        causes = {"gpu_heat": driver.NVML_PERF_POLICY_THERMAL, "gpu_power_limit": driver.NVML_PERF_POLICY_POWER}
        return {
            f"{name}_throttled_ns": float(driver.nvmlDeviceGetViolationStatus(handle, policy).violationTime)
            for name, policy in causes.items()
        }
    finally:
        driver.nvmlShutdown()
