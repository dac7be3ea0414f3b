"""Tensors between a device, the CPU and float64, with sizes, strides and values as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_map

MOST_HOLES = 4
"""A tensor is copied with its holes where they make it at most so many times as large."""
NARROW = (torch.float16, torch.bfloat16, torch.float32)
WIDER = dict.fromkeys(NARROW, torch.float64) | dict.fromkeys((torch.complex32, torch.complex64), torch.complex128)


def to_device(tensor: torch.Tensor, device: Any) -> torch.Tensor:
    """A copy on ``device`` with the strides of ``tensor``.

    Memory is copied as it lies, because a device's own copy of a strided tensor is one of the things that may be wrong.
    """
    tensor = tensor.detach()
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return tensor.to(device, copy=True)
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    held = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    if not tensor.numel() or held > MOST_HOLES * tensor.numel():
        return tensor.to(device, copy=True)
    memory = tensor.as_strided((held,), (1,)).to(device, copy=True)
    return memory.as_strided(tensor.shape, tensor.stride())


class Copies:
    """Copies on the CPU of what lies on a device, one for each version of a tensor.

    Who writes past the version counter (``Tensor.data``, kernels that the dispatcher does not know) leaves an old copy
    here: what differs from it is compared once more with a new one (``fresh``).
    """

    SWEEP = 512

    def __init__(self) -> None:
        self._known: dict[Any, tuple[StorageWeakRef, torch.Tensor]] = {}

    def of(self, tensor: torch.Tensor, *, fresh: bool = False) -> torch.Tensor:
        key = self._key(tensor)
        found = self._known.get(key) if key is not None and not fresh else None
        if found is not None and not found[0].expired():
            return found[1]
        made = to_device(tensor, "cpu")
        self.add(tensor, made)
        return made

    def add(self, tensor: torch.Tensor, copy: torch.Tensor) -> None:
        key = self._key(tensor)
        if key is not None:
            self._known[key] = StorageWeakRef(tensor.untyped_storage()), copy
            if len(self._known) % self.SWEEP == 0:
                self._known = {key: one for key, one in self._known.items() if not one[0].expired()}

    @staticmethod
    def _key(tensor: torch.Tensor) -> Any:
        if tensor.layout is not torch.strided or tensor.is_inference() or tensor.is_conj() or tensor.is_neg():
            return None
        place = tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor._version
        return *place, tensor.shape, tensor.stride(), tensor.dtype


def copied(values: Any, device: Any, copy: Callable[[torch.Tensor], torch.Tensor] | None = None) -> Any:
    """``values`` with copies of their tensors on ``device``, by ``copy`` if it is given; devices are named so too."""
    known: dict[int, torch.Tensor] = {}

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            if id(leaf) not in known:
                known[id(leaf)] = to_device(leaf, device) if copy is None else copy(leaf)
            return known[id(leaf)]
        if isinstance(leaf, torch.device):
            return torch.device(device)
        return None if isinstance(leaf, torch.Generator) else leaf

    return tree_map(one, values)


def wider(leaf: Any) -> Any:
    """A dtype as that of twice the width; what is none, and has no such one, stays."""
    return WIDER.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """As float64 where it is a floating-point tensor, its strides kept."""
    kind = WIDER.get(tensor.dtype)
    if kind is None:
        return tensor
    if tensor.layout is not torch.strided or not tensor.numel():
        return tensor.to(kind)
    wide = torch.empty_strided(tensor.shape, tensor.stride(), dtype=kind, device=tensor.device)
    if any(step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride(), strict=True)):
        return tensor.to(kind)
    return wide.copy_(tensor)
