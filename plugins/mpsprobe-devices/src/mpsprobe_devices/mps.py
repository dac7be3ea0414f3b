"""Apple's GPU: everything here that is special to MPS.

Only documented functions are called, each in the releases that have it; this file was never run on a Mac, so it is
thin. What ``torch.mps`` has: ``synchronize``, ``current_allocated_memory``, ``driver_allocated_memory`` and
``empty_cache`` since 2.0, ``recommended_max_memory`` since 2.6. The allocator keeps peaks for ``torch.accelerator`` in
the releases whose ATen/mps/MPSAllocator.h declares ``getDeviceStats`` (2.13.0 and later; read in the macOS wheels); a
release that raises is believed, and its peak is sampled.

``torch.mps.Event`` takes the time since 2.1, but before 2.15 ``elapsed_time`` after ``synchronize`` could wait for
ever, and short intervals could come out negative: the time was taken in callbacks of the host. pytorch#196395 takes it
from the command buffer instead. Its ATen/mps/MPSEvent.h, with ``m_timing_generation``, is in the macOS wheel of 2.15.0;
the one of 2.14.1 is still that of 2.13.0.
"""

from __future__ import annotations

import platform

import torch
from packaging.version import Version

from mpsprobe.schemas import DeviceInfo
from mpsprobe_devices.machine import Memory, processor_name
from mpsprobe_devices.torch_device import TorchDevice

PEAKS_SINCE = Version("2.13")
EVENTS_SINCE = Version("2.15")
BFLOAT16_MACOS = 14  # "MPS BFloat16 is only supported on MacOS 14 or newer"


class MpsDevice(TorchDevice):
    name = "mps"

    def unavailable(self) -> str | None:
        if platform.system() != "Darwin":
            return "MPS needs a Mac with Apple silicon"
        if not torch.backends.mps.is_built():
            why = "x86_64 Python under Rosetta" if platform.machine() == "x86_64" else "another wheel"
            return f"torch {torch.__version__} was built without MPS ({why}?)"
        if not torch.backends.mps.is_available():
            return f"torch {torch.__version__} finds no MPS device on macOS {platform.mac_ver()[0]}"
        return None

    def describe(self) -> DeviceInfo:
        capabilities = {
            "macos": platform.mac_ver()[0],
            "torch": torch.__version__,
            "float16": "yes",
            "bfloat16": "yes" if torch.backends.mps.is_macos_or_newer(BFLOAT16_MACOS, 0) else "no: needs macOS 14",
            "float64": "no",
        }
        named = getattr(torch.backends.mps, "get_name", None)  # 2.9 and later, as the next one
        cores = getattr(torch.backends.mps, "get_core_count", None)
        if cores is not None:
            capabilities["gpu_cores"] = str(cores())
        return DeviceInfo(
            type=self.name,
            name=str(named()) if named is not None else processor_name(),  # Apple M1 Pro is both
            memory_bytes=int(torch.mps.recommended_max_memory()),
            capabilities=capabilities,
            caveats=["memory is shared with the CPU: the figure is what Metal recommends to use at most"],
        )

    def synchronize(self) -> None:
        torch.mps.synchronize()

    def memory(self) -> Memory:
        """What tensors hold, and what the driver has given to the process (Metal's own buffers are in it)."""
        return Memory(torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory())

    def reset_peak(self) -> bool:
        if Version(torch.__version__) < PEAKS_SINCE:
            return False
        try:
            torch.accelerator.reset_peak_memory_stats()
        except RuntimeError:
            return False
        return True

    def peak(self) -> Memory:
        return Memory(torch.accelerator.max_memory_allocated(), torch.accelerator.max_memory_reserved())

    def empty_cache(self) -> None:
        """Give cached buffers back to Metal; MPSGraph's own caches stay."""
        torch.mps.empty_cache()

    def clock_unavailable(self) -> str | None:
        if Version(torch.__version__) >= EVENTS_SINCE:
            return None
        return (
            f"torch.mps.Event of torch {torch.__version__} can hang and give negative times (pytorch#196395, "
            f"repaired in {EVENTS_SINCE})"
        )
