"""Saving tensors of the device, and loading tensors onto it: ``torch.save``, ``torch.load``, ``pickle``.

C++ has no storage on the device here. A storage of the CPU with the mark of the device stands for one: PyTorch's
serialization asks a registered package where a storage is, and what to do with one that was there.
"""

from __future__ import annotations

import functools
import mmap
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

_OF_DEVICE = "of_virtual_device"
_FIRST = 5  # before the package of the CPU
_PRIVATE: Any = (
    {"flags": mmap.MAP_PRIVATE} if hasattr(mmap, "MAP_PRIVATE") else {}
)  # shared memory is given when it is read


def on_the_device(storage: Any) -> Any:
    setattr(storage, _OF_DEVICE, True)
    return storage


def zeros_for(storage: Any) -> torch.UntypedStorage:
    """In place of a ``storage`` without data one of as many zeros, always the same: memory that nobody writes to."""
    if not hasattr(storage, "zeros"):  # PyTorch keeps the Python object of a storage while a tensor uses that
        memory = mmap.mmap(-1, max(storage.nbytes(), 1), **_PRIVATE)
        storage.zeros = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    zeros: torch.UntypedStorage = storage.zeros
    return zeros


def reduced(tensor: Any, known: torch.Tensor | None) -> tuple[Any, ...]:
    """What ``__reduce_ex__`` returns for ``tensor``; where values are not known, it is copied first."""
    hooks: OrderedDict[Any, Any] = OrderedDict()
    if isinstance(tensor, torch.nn.Parameter):
        return torch._utils._rebuild_parameter, (tensor.detach(), tensor.requires_grad, hooks)
    real = tensor.detach().cpu() if known is None else known.detach()
    rebuild, arguments = real.__reduce_ex__(2)
    on_the_device(real.untyped_storage())
    if rebuild is torch._utils._rebuild_tensor_v2:
        arguments = (*arguments[:4], tensor.requires_grad, *arguments[5:])
    return rebuild, arguments


def loading(
    device: torch.device, place: Callable[[torch.Tensor], Any], replace: Callable[[Any, str, Any], None]
) -> Callable[[], None]:
    """Let ``torch.load`` put tensors on ``device``, made by ``place`` of the CPU's; returns what undoes that."""

    def location(storage: Any) -> str | None:
        return device.type if getattr(storage, _OF_DEVICE, False) else None

    def restore(storage: Any, where: str) -> Any:
        return on_the_device(storage) if where.partition(":")[0] == device.type else None

    original: Any = torch._utils._rebuild_tensor

    @functools.wraps(original)  # torch.load allows functions by their names
    def rebuild(storage: Any, *rest: Any) -> Any:
        made = original(storage, *rest)
        return place(made) if location(storage._untyped_storage) else made

    package = (_FIRST, location, restore)
    torch.serialization.register_package(*package)
    replace(torch._utils, "_rebuild_tensor", rebuild)
    replace(torch.UntypedStorage, device.type, on_the_device)
    return lambda: torch.serialization._package_registry.remove(package)
