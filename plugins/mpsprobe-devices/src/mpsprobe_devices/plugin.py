"""What this plugin offers. Thin: it does not import torch."""

from __future__ import annotations

from mpsprobe import hookimpl
from mpsprobe.declarations import DeviceDeclaration


@hookimpl
def mpsprobe_devices() -> list[DeviceDeclaration]:
    """The best first: ``--device auto`` takes the first one that is there."""
    return [
        DeviceDeclaration("mps", "mpsprobe_devices.mps:MpsDevice", "The GPU of Apple silicon, through Metal."),
        DeviceDeclaration("cuda", "mpsprobe_devices.cuda:CudaDevice", "An NVIDIA GPU (or an AMD one with ROCm)."),
        DeviceDeclaration("cpu", "mpsprobe_devices.cpu:CpuDevice", "The processor."),
    ]
