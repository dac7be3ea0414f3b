"""The virtual MPS device: PyTorch's real dispatcher and autograd, with a Mac's kernel table in it."""

from mpsprobe_coverage.devices.virtual.device import VirtualDevice, device_now

__all__ = ["VirtualDevice", "device_now"]
