"""What predicted memory is compared with: storages on real devices, and CUDA's caching allocator.

Of the allocator, facts from PyTorch's ``c10/cuda/CUDACachingAllocator.cpp`` and ``c10/core/AllocatorConfig.h``: sizes
are rounded to 512 bytes; up to 1 MiB they come from segments of 2 MiB, below 10 MiB from segments of 20 MiB, others
have a segment of their own, rounded to 2 MiB. The smallest free block that fits is taken and split where 512 bytes
(small), or more than 1 MiB (large) are left; free neighbours are merged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.utils._python_dispatch import TorchDispatchMode

from mpsprobe_coverage.knowledge.memory.allocator import SMALL, Merging, Ranges
from mpsprobe_coverage.knowledge.memory.lifetimes import Held, Lifetimes

_MARK = "of_lifetimes"


class Tracking(TorchDispatchMode):
    """Records the storages of one type of device that operators make inside ``with``, on any that PyTorch knows.

    Args:
        lifetimes: gets the events.
        device: the type, ``cuda``. Under ``FakeTensorMode`` it is the one that the tensors stand for.

    Open it inside the ``FakeTensorMode``, so that it sees what that returns. What exists before is added by ``add``. A
    value that Python asks a fake tensor for is taken for zero, or False.
    """

    def __init__(self, lifetimes: Lifetimes, device: str) -> None:
        super().__init__()
        self.lifetimes, self.device = lifetimes, device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        try:
            result = func(*args, **(kwargs or {}))
        except DataDependentOutputException:  # `if torch.rand([]) < self.layerdrop`
            return False if args[0].dtype is torch.bool else 0
        before = len(self.lifetimes.events)
        if isinstance(result, torch.Tensor):
            self.add((result,))
        elif isinstance(result, (tuple, list)):
            self.add(one for one in result if isinstance(one, torch.Tensor))
        if func._schema.is_mutable:  # `out=` and `resize_` make a storage larger
            written = zip(func._schema.arguments, args, strict=False)
            self.add(one for argument, one in written if argument.is_write and isinstance(one, torch.Tensor))
        if len(self.lifetimes.events) > before:
            self.lifetimes.made(func._schema.name)
        return result

    def add(self, tensors: Iterable[torch.Tensor]) -> None:
        """Record the storages of ``tensors``, or how large those have become."""
        for tensor in tensors:
            if tensor.device.type == self.device and tensor.layout is torch.strided:
                storage = tensor.untyped_storage()
                held = getattr(storage, _MARK, None)
                if held is None:  # PyTorch keeps the Python object of a storage while a tensor uses that
                    setattr(storage, _MARK, self.lifetimes.begin(storage.nbytes()))
                else:
                    held.grow(storage.nbytes())

    def held(self, tensor: torch.Tensor) -> Held | None:
        """What stands for the storage of ``tensor``, if that was recorded."""
        found: Held | None = getattr(tensor.untyped_storage(), _MARK, None)
        return found


_MIB = 2**20
ROUND = 512
SMALL_SEGMENT, LARGE_SEGMENT, LARGE, ROUND_LARGE = 2 * _MIB, 20 * _MIB, 10 * _MIB, 2 * _MIB


class CudaAllocator(Merging):
    """See ``Allocator``; memory does not end."""

    def __init__(self) -> None:
        super().__init__(Ranges(ROUND), Ranges(SMALL + 1))

    def _rounded(self, nbytes: int) -> int:
        return -(-nbytes // ROUND) * ROUND

    def _segment(self, size: int) -> int:
        if size <= SMALL:
            return SMALL_SEGMENT
        return LARGE_SEGMENT if size < LARGE else -(-size // ROUND_LARGE) * ROUND_LARGE
