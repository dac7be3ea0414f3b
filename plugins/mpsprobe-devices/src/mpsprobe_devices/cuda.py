"""An NVIDIA GPU, or an AMD one in a build of torch for ROCm: the same functions.

Heat and clocks come from NVIDIA's driver, through ``nvidia-ml-py``, which torch's own functions for them need too.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from mpsprobe.errors import UsageError, install_command
from mpsprobe.schemas import DeviceInfo
from mpsprobe.suggestions import first_line
from mpsprobe_devices.counted import Memory
from mpsprobe_devices.torch_device import EventStopwatch, TorchDevice

# Of torch.cuda.memory_stats: one call gives both, two would cost twice as much.
ALLOCATED, RESERVED = "allocated_bytes.all.current", "reserved_bytes.all.current"


class CudaDevice(TorchDevice):
    """Satisfies ``mpsprobe.protocols.Device``; the current device of torch, as ``CUDA_VISIBLE_DEVICES`` leaves it."""

    name = "cuda"

    def unavailable(self) -> str | None:
        """Why there is no usable GPU."""
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
        """Name, memory, compute capability and the versions of the libraries."""
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        capabilities = {
            "compute_capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": str(properties.multi_processor_count),
            "runtime": str(torch.version.cuda or torch.version.hip),
            "torch": torch.__version__,
            "bfloat16": "yes" if torch.cuda.is_bf16_supported(including_emulation=False) else "emulated or not at all",
            "float16": "yes" if (properties.major, properties.minor) >= (5, 3) else "no",
        }
        capabilities |= _told("tf32", lambda: "on" if torch.backends.cuda.matmul.allow_tf32 else "off")
        capabilities |= _told("cudnn", torch.backends.cudnn.version)
        return DeviceInfo(
            type=self.name, name=properties.name, memory_bytes=properties.total_memory, capabilities=capabilities
        )

    def synchronize(self) -> None:
        """Wait for every stream of the current device."""
        torch.cuda.synchronize()

    def memory(self) -> Memory:
        """From the caching allocator."""
        statistics = torch.cuda.memory_stats()
        return Memory(statistics.get(ALLOCATED, 0), statistics.get(RESERVED, 0))

    def reset_peak(self) -> bool:
        """True."""
        torch.cuda.reset_peak_memory_stats()
        return True

    def peak(self) -> Memory:
        """From the caching allocator."""
        return Memory(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())

    def empty_cache(self) -> None:
        """Give cached blocks back to the driver."""
        torch.cuda.empty_cache()

    def index(self) -> int:
        """Which of the GPUs that torch sees."""
        return int(torch.cuda.current_device())

    def clock_unavailable(self) -> str | None:
        """None: events take the time."""
        return None

    def stopwatch(self) -> EventStopwatch:
        """Events in the current stream; what a step does in other streams is not in their time."""
        return EventStopwatch(partial(torch.cuda.Event, enable_timing=True))

    def state(self) -> Mapping[str, float | str]:
        """Temperature, power, clock, and for how long heat or the power limit held the clocks down.

        Raises:
            Exception: ``nvidia-ml-py`` is not installed, or the driver does not answer.
        """
        try:
            driver = importlib.import_module("pynvml")
        except ImportError:
            command = install_command("mpsprobe-devices[nvidia]")
            raise UsageError(f"the GPU's state needs nvidia-ml-py: {command}") from None
        found: dict[str, float | str] = {
            "gpu_celsius": float(torch.cuda.temperature()),
            "gpu_mw": float(torch.cuda.power_draw()),
            "gpu_mhz": float(torch.cuda.clock_rate()),
        }
        try:
            return found | _throttled(driver)
        except Exception:  # noqa: BLE001 - not every GPU counts this, and the driver has errors of its own
            return found


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


def _told(name: str, ask: Callable[[], object]) -> dict[str, str]:
    """What a setting is; nothing where this release of torch does not say."""
    try:
        value = ask()
    except (AttributeError, RuntimeError):
        return {}
    return {} if value is None else {name: str(value)}
