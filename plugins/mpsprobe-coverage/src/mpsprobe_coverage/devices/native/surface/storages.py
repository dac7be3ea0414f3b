"""``torch.UntypedStorage`` on the device, without which nothing can be loaded or unpickled there."""

from __future__ import annotations

from typing import Any

import torch

from mpsprobe_coverage.devices.virtual.mps_in_python import Replace


def storages_on_mps(replace: Replace) -> None:
    """Let the constructor of storages make those of MPS.

    It knows the devices that its build of torch has (``THPStorage_pynew`` in ``torch/csrc/Storage.cpp``), or takes the
    address of an allocator.
    """
    new: Any = torch.UntypedStorage.__new__
    address = torch.ops.mpsprobe.allocator()

    def made(cls: Any, *args: Any, device: Any = None, **options: Any) -> Any:
        if device is None:
            return new(cls, *args, **options)
        if torch.device(device).type != "mps":
            return new(cls, *args, device=device, **options)
        return new(cls, *args, allocator=address, **options)

    replace(torch.UntypedStorage, "__new__", staticmethod(made))
