"""Moving things onto the virtual device: tensors, nested inputs, modules."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from mpsprobe_coverage.devices.virtual.construction import is_placed
from mpsprobe_coverage.devices.virtual.execution import MATERIALISE_LIMIT
from mpsprobe_coverage.devices.virtual.tensor import VirtualTensor, stands_for, undispatched, virtual_tensor
from mpsprobe_coverage.knowledge.calls.spec import CPU, interned, spec_of


class NotStrided(TypeError):
    """A tensor of another layout: the virtual device holds strided and sparse ones only."""


NESTED = "its layout is strided, whose storage must be on a device that NestedTensorImpl.cpp names; use torch.jagged"


class Wrapper:
    def __init__(self, shadow_limit: int, keep_parameters: bool = False) -> None:
        self.shadow_limit = shadow_limit  # elements: of larger tensors real values are not kept
        self.keep_parameters = keep_parameters  # real weights were asked for
        self._made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """The virtual tensor for ``tensor``, or a tensor of its class that holds such; parameters become parameters."""
        if isinstance(tensor, VirtualTensor):
            self._begin_again(tensor)
            return tensor
        earlier = self._made.get(id(tensor))
        if earlier is not None:
            return earlier[1]
        if is_lazy(tensor) or hasattr(tensor, "__tensor_flatten__"):
            special = uninitialised(tensor) if is_lazy(tensor) else self._holder(tensor)
            self._made[id(tensor)] = (tensor, special)
            return special
        strided = tensor.layout is torch.strided
        if tensor.is_nested:
            raise NotStrided(f"a nested tensor cannot be moved to {stands_for.type}: {NESTED}")
        if not (strided or str(tensor.layout).startswith("torch.sparse")):
            raise NotStrided(f"a tensor of layout {tensor.layout} cannot be moved to the virtual MPS device")
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        spec = spec_of(tensor)
        shadow = None
        keep = self.keep_parameters or (not is_parameter and spec.shadow_cost <= self.shadow_limit)
        if keep and strided and not tensor.is_quantized and tensor.device.type == "cpu":
            # A program may write into its inputs; those of the caller stay as they are.
            shadow = tensor.detach() if is_parameter else tensor.detach().clone()
        with undispatched():
            virtual = virtual_tensor(spec, shadow, tensor.requires_grad)
        if is_parameter:
            virtual._is_param = True  # what `isinstance(…, torch.nn.Parameter)` asks for
        self._made[id(tensor)] = (tensor, virtual)
        return virtual

    def _begin_again(self, tensor: VirtualTensor) -> None:
        """A tensor that an earlier run has moved is there from the beginning of this one; views share what it has."""
        lifetimes = stands_for.lifetimes
        if lifetimes is None:
            return
        if tensor.memory is None:
            tensor.memory = lifetimes.begin(tensor.spec.held)
        else:
            tensor.memory.begin_again(lifetimes.events)

    def _holder(self, tensor: Any) -> torch.Tensor:
        """A tensor of a class that holds others (nested ones of jagged layout, quantized weights), with those moved."""
        names, context = tensor.__tensor_flatten__()
        inner = {name: self.tensor(getattr(tensor, name)) for name in names}
        moved: torch.Tensor = type(tensor).__tensor_unflatten__(inner, context, tensor.size(), tensor.stride())
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(moved, tensor.requires_grad)
        return moved

    def module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Replace every parameter and buffer of ``module`` in place; returns it."""
        for child in module.modules():
            stores: tuple[dict[str, Any], ...] = (child._parameters, child._buffers)
            for store in stores:
                for name, value in store.items():
                    if value is not None:
                        store[name] = self.tensor(value)
            # Tensors that a module keeps as plain attributes stay behind, as on a Mac.
            for name, value in list(vars(child).items()):
                if type(value) is VirtualTensor:
                    self._begin_again(value)
                elif isinstance(value, torch.Tensor):
                    if is_placed(value):
                        vars(child)[name] = self.tensor(value)
                    elif value.is_meta:
                        vars(child)[name] = _on_the_cpu(value)
        return module

    def nested(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, torch.nn.Module):
            return self.module(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.nested(item) for item in value))
        if isinstance(value, (list, tuple)):
            return type(value)(self.nested(item) for item in value)
        if isinstance(value, dict):
            items = {key: self.nested(item) for key, item in value.items()}
            return items if type(value) is dict else _rebuilt(value, items)
        if isinstance(value, Mapping):
            return {key: self.nested(item) for key, item in value.items()}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = copy.copy(value)  # that of the caller stays where it is
            for field in dataclasses.fields(value):
                object.__setattr__(value, field.name, self.nested(getattr(value, field.name)))
        return value


def _on_the_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Zeros in place of what was made on meta; one zero, seen as many, where it is large."""
    zeros = torch.zeros(() if tensor.numel() > MATERIALISE_LIMIT else tensor.shape, dtype=tensor.dtype, device=CPU)
    expanded = zeros.expand(tensor.shape)
    expanded.made_at = getattr(tensor, "made_at", None)  # type: ignore[attr-defined]
    return expanded


def _rebuilt(original: Any, items: dict[Any, Any]) -> Any:
    try:
        return type(original)(items)
    except TypeError:
        original = copy.copy(original)
        for key, item in items.items():
            original[key] = item
        return original


# Parameters that have no shape before the first forward pass (`nn.LazyConv2d` and its like). On a Mac they are moved
# without one, and the first forward pass makes them there: `materialize` calls `empty` on the device, and the module
# then draws its values. The same object becomes the parameter, so an optimizer that was made before it knows it (tried
# with torch's AdamW: plain, foreach and fused).
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
    with undispatched():
        virtual = virtual_tensor(interned((0,), (1,), tensor.dtype), None, tensor.requires_grad)
    if isinstance(tensor, torch.nn.Parameter):
        virtual._is_param, virtual.__class__ = True, _Parameter
    else:
        virtual.__class__ = _Buffer
    return virtual


def initialised(tensors: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
    return (tensor for tensor in tensors if not is_lazy(tensor))
