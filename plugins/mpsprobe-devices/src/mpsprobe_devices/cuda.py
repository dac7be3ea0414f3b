"""An NVIDIA GPU, or an AMD one in a build of torch for ROCm: the same functions."""

from __future__ import annotations

import torch

from mpsprobe.schemas import DeviceInfo
from mpsprobe_devices.torch_device import Memory, TorchDevice, first_line


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
            "tf32": "on" if torch.backends.cuda.matmul.allow_tf32 else "off",
        }
        return DeviceInfo(
            type=self.name, name=properties.name, memory_bytes=properties.total_memory, capabilities=capabilities
        )

    def synchronize(self) -> None:
        """Wait for every stream of the current device."""
        torch.cuda.synchronize()

    def memory(self) -> Memory:
        """From the caching allocator."""
        return Memory(torch.cuda.memory_allocated(), torch.cuda.memory_reserved())

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
