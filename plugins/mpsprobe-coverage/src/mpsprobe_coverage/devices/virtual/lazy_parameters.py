"""Parameters that have no shape before the first forward pass (``nn.LazyConv2d`` and its like).

On a Mac they are moved without one, and the first forward pass makes them there: ``materialize`` calls ``empty`` on
the device, and the module then draws its values. The same object becomes the parameter, so an optimizer that was made
before it knows it (tried with torch's AdamW: plain, foreach and fused).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from mpsprobe_coverage.devices.virtual.tensor import (
    VirtualTensor,
    stands_for,
    undispatched,
    virtual_parameter,
    virtual_tensor,
)
from mpsprobe_coverage.knowledge.calls.spec import interned


def _materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
    made = torch.empty(shape, device=stands_for.device if device is None else device, dtype=dtype or self.spec.dtype)
    self.__class__ = VirtualTensor
    self.data = made


class _Parameter(torch.nn.UninitializedParameter, VirtualTensor):
    materialize = _materialize


class _Buffer(torch.nn.UninitializedBuffer, VirtualTensor):
    materialize = _materialize


def uninitialised(tensor: torch.Tensor) -> VirtualTensor:
    """``tensor``, an uninitialised parameter or buffer, on the device: ``materialize`` makes an ordinary one of it."""
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    make = virtual_parameter if is_parameter else virtual_tensor
    with undispatched():
        virtual = make(interned((0,), (1,), tensor.dtype), None, tensor.requires_grad)
    virtual.__class__ = _Parameter if is_parameter else _Buffer
    return virtual


def initialised(tensors: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Those that have a shape."""
    return (tensor for tensor in tensors if not is_lazy(tensor))
