"""Tensors between a device, the CPU and float64, with sizes, strides and values as they were."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

MOST_HOLES = 4
"""A tensor is copied with its holes where they make it at most so many times as large."""
LEAST_KEPT = 2**27
"""After so many more bytes of copies it is asked whether what they are copies of is still there."""
MOST_KEPT = 2**31
"""Bytes of copies beyond which the oldest go: they are made again where they are wanted."""
PIECE = 2**20
"""Elements that are fetched and compared at once: large tensors take longer to be given memory than to be computed."""
NARROW = (torch.float16, torch.bfloat16, torch.float32)
WIDER = dict.fromkeys(NARROW, torch.float64) | dict.fromkeys((torch.complex32, torch.complex64), torch.complex128)


def to_device(tensor: torch.Tensor, device: Any) -> torch.Tensor:
    """A copy on ``device`` with the strides of ``tensor``.

    Memory is copied as it lies, because a device's own copy of a strided tensor is one of the things that may be wrong.
    """

    def moved(memory: torch.Tensor) -> torch.Tensor:
        if not (memory.is_cuda and device == "cpu" and memory.dim() == 1 and memory.layout is torch.strided):
            return memory.to(device, copy=True)
        here = torch.empty_like(memory, device=device)
        for part, piece in zip(here.split(PIECE), fetched(memory), strict=True):
            part.copy_(piece)
        return here

    return _as_it_lies(tensor, moved)


def fetched(memory: torch.Tensor) -> Iterator[torch.Tensor]:
    """The elements of one dimension on the CPU, a piece at a time, each where the last one was.

    That memory is locked, so that a GPU writes it itself, and no page of it is new.
    """
    here = torch.empty(min(PIECE, memory.numel()), dtype=memory.dtype, pin_memory=memory.is_cuda)
    for part in memory.split(PIECE):
        yield here[: part.numel()].copy_(part)


def _as_it_lies(tensor: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """What ``change`` makes of the memory of a tensor, with its strides; of itself where that is mostly holes."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return change(tensor)
    tensor = tensor.resolve_conj().resolve_neg()
    if not tensor.numel() or _span(tensor) > MOST_HOLES * tensor.numel():
        return change(tensor)
    return change(tensor.as_strided((_span(tensor),), (1,))).as_strided(tensor.shape, tensor.stride())


class Copies:
    """What lies on a device, on the CPU: for each memory one, of which tensors that view it are views too.

    Nobody writes to these. One is a copy, or what the CPU computed and the device's is near to (``keep``).
    Who writes past the version counter (``Tensor.data``, kernels that the dispatcher does not know) leaves an old copy
    here: what differs from it is compared once more with a new one (``fresh``).
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[StorageWeakRef, Any, torch.Tensor]] = {}
        self._held, self._most = 0, LEAST_KEPT  # bytes

    def of(self, tensor: torch.Tensor, *, fresh: bool = False) -> torch.Tensor:
        if not _is_plain(tensor):
            return to_device(tensor, "cpu")
        tensor, storage = tensor.detach(), tensor.untyped_storage()
        size = storage.nbytes() // tensor.element_size()
        if not tensor.numel() or size > MOST_HOLES * _span(tensor):
            return to_device(tensor, "cpu")
        about = tensor._version, tensor.dtype, size
        owner, known, memory = self._known.get(storage._cdata, (None, None, tensor))
        if fresh or owner is None or owner.expired() or known != about:
            memory = to_device(tensor.as_strided((size,), (1,), 0), "cpu")
            self._add(storage, about, memory)
        return memory.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def keep(self, tensor: torch.Tensor, same: torch.Tensor) -> None:
        """Have ``same`` for ``tensor``, where it lies as that does; elsewhere it is copied once it is wanted."""
        if _is_plain(tensor) and tensor.dtype is same.dtype and alike(tensor, same):
            tensor, storage = tensor.detach(), tensor.untyped_storage()
            if storage.nbytes() == tensor.nbytes:
                memory = same.as_strided((same.numel(),), (1,))
                self._add(storage, (tensor._version, tensor.dtype, tensor.numel()), memory)

    def drop(self, memory: int) -> None:
        """Have nothing for this ``place``: not every write is counted."""
        if (before := self._known.pop(memory, None)) is not None:
            self._held -= before[2].nbytes

    def _add(self, storage: Any, about: Any, memory: torch.Tensor) -> None:
        self.drop(storage._cdata)
        self._held += memory.nbytes
        self._known[storage._cdata] = StorageWeakRef(storage), about, memory
        if self._held > self._most:
            for key in [key for key, (owner, *_) in self._known.items() if owner.expired()]:
                self.drop(key)
            while self._held > MOST_KEPT:
                self.drop(next(iter(self._known)))
            self._most = min(self._held + LEAST_KEPT, MOST_KEPT)


def alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both lie in memory in the same way, without holes."""
    if not all(part.layout is torch.strided and not part.is_conj() and not part.is_neg() for part in (one, other)):
        return False
    return one.shape == other.shape and one.stride() == other.stride() and _span(one) == one.numel() > 0


def _span(tensor: torch.Tensor) -> int:
    """Of how many elements of memory from the first to the last one."""
    return 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def place(tensor: torch.Tensor) -> int:
    """The same number for tensors that share memory."""
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else id(tensor)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether it views memory as it lies, and has a version."""
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_inference():
        return False
    return not (tensor.is_conj() or tensor.is_neg())


def copied(values: Any, device: Any, change: Callable[[torch.Tensor], torch.Tensor] | None = None) -> Any:
    """``values`` with copies of their tensors on ``device``, by ``change`` if it is given; devices are named so too."""
    known: dict[int, torch.Tensor] = {}

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            if id(leaf) not in known:
                known[id(leaf)] = to_device(leaf, device) if change is None else change(leaf)
            return known[id(leaf)]
        if isinstance(leaf, torch.device):
            return torch.device(device)
        return None if isinstance(leaf, torch.Generator) else leaf

    return tree_map(one, values)


def copied_deeply(values: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A copy of ``values`` and of objects among them (a cache of keys and values), whose tensors ``change`` makes."""
    with _Changing(change):
        return copy.deepcopy(values)


class _Changing(TorchFunctionMode):
    """Has ``copy.deepcopy`` take what ``change`` makes of a tensor."""

    def __init__(self, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._change = change

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.Tensor.__deepcopy__:
            return func(*args, **kwargs or {})
        with torch._C.DisableTorchFunction():
            return self._change(args[0])


def wider(leaf: Any) -> Any:
    """A dtype as that of twice the width; what is none, and has no such one, stays."""
    return WIDER.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """As float64 where it is a floating-point tensor, its strides kept."""
    kind = WIDER.get(tensor.dtype)
    return tensor if kind is None else _as_it_lies(tensor, lambda memory: memory.to(kind))
