"""Building a model without its weights, with everything small that its control flow may read; and moving it.

``torch.device("meta")`` alone loses too much: position ids, masks and tables of indices are data that models look at.
Here what parameters are made of (``empty``, ``rand``, ``randn`` …) goes to meta, and every other factory runs on the
CPU as long as what it makes is small.

What was asked for on the device, and what is computed from that, is marked as ``placed`` there: on a Mac it is on the
device, while other tensors stay on the CPU unless the model moves them. ``torch.backends.mps`` and ``torch.mps`` answer
as on a Mac: models ask them whether to make tables in float64 (Lumina2's rotary embedding in diffusers 0.42).
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any, Self

import torch
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from mpsprobe_coverage.devices.virtual.execution import MATERIALISE_LIMIT, unit
from mpsprobe_coverage.devices.virtual.mps_in_python import default_generator, mps_in_python, replacing
from mpsprobe_coverage.devices.virtual.tensor import (
    MPS,
    VirtualTensor,
    parse_to,
    stands_for,
    undispatched,
    virtual_tensor,
    with_tensors,
)
from mpsprobe_coverage.knowledge.calls.spec import CPU, META, interned, spec_of, tensors_in
from mpsprobe_coverage.recording.attribution import Attribution, Origin

_WITHOUT_VALUES = {
    torch.empty, torch.empty_strided, torch.empty_permuted, torch.rand, torch.randn, torch.normal,
    torch.empty_like, torch.rand_like, torch.randn_like,
}  # fmt: skip
_MOVES = {torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu}
_ON_THE_CPU = {torch.from_numpy, torch.frombuffer}  # they take no device
_DATA_IN = {torch.tensor, torch.as_tensor, torch.asarray, *_ON_THE_CPU}


class Construction(TorchFunctionMode):
    """While on, factories make meta tensors (weights) or small real ones (everything else)."""

    def __init__(self, limit: int, attribution: Attribution, weights: bool = False, device: str = "mps") -> None:
        super().__init__()
        self.device = device  # the type of the one that is imitated
        self.limit = limit  # of a real tensor, in elements
        self.attribution = attribution
        self.elsewhere: dict[Origin, str] = {}  # where a tensor is moved to a device of another type, and that type
        self._any_placed = False
        self.weights = weights  # real weights were asked for: everything stays real, on the CPU
        self._factories = _device_constructors()
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        if self.device == "mps":
            replace, _ = self._exits.enter_context(replacing())
            mps_in_python(replace, default_generator(replace, MPS))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._exits.close()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in self._factories:
            result = self._make(func, args, kwargs)
            if _names(kwargs.get("device"), self.device):
                self._place(result)
        else:
            result = self._move(func, args, kwargs) if func in _MOVES else self._call(func, args, kwargs)
        if isinstance(result, torch.Tensor):
            self.attribution.mark(result)
        if self._any_placed and any(map(is_placed, tensors_in((args, kwargs)))):
            for tensor in tensors_in(result):
                self._place(tensor)
        return result

    def _place(self, tensor: Any) -> Any:
        self._any_placed = tensor.placed = True
        return tensor

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            if {tensor.device.type for tensor in tensors_in((args, kwargs))} == {"cpu", "meta"}:
                # A weight on meta met a small real tensor: the result has no values either.
                moved_args, moved_kwargs = with_tensors(_to_meta, (args, kwargs))
                with suppress(RuntimeError):
                    return func(*moved_args, **moved_kwargs)
            return self._on_unit_matrices(func, args, kwargs, error)

    def _on_unit_matrices(self, func: Any, args: Any, kwargs: Any, error: RuntimeError) -> Any:
        """What has no meta kernel, or reads a value (``parametrizations.orthogonal`` does both), from small weights."""
        tensors = tensors_in((args, kwargs))
        on_meta = [tensor for tensor in tensors if tensor.is_meta]
        if not on_meta or any(tensor.numel() > self.limit for tensor in on_meta):
            raise error
        units, named = with_tensors(lambda t: unit(spec_of(t)).clone() if t.is_meta else t, (args, kwargs))
        return with_tensors(lambda tensor: tensor.to(META), func(*units, **named))

    def _make(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        asked = kwargs.get("device")
        if asked is not None and torch.device(asked).type not in (self.device, "cpu"):
            return func(*args, **kwargs)
        if self.weights or func in _DATA_IN:
            return func(*args, **kwargs if func in _ON_THE_CPU else {**kwargs, "device": CPU})
        generator = {"generator": None} if "generator" in kwargs else {}
        on_meta = func(*args, **{**kwargs, **generator, "device": META})
        if func in _WITHOUT_VALUES or on_meta.numel() > self.limit:
            return on_meta
        return func(*args, **{**kwargs, "device": CPU})

    def _move(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """A move to a device changes nothing here: the model is moved when it is built."""
        tensor, rest = args[0], args[1:]
        if func is not torch.Tensor.to:
            if func is torch.Tensor.cuda:
                self.elsewhere[self.attribution.current()] = "cuda"
            return tensor
        device, options = parse_to(rest, kwargs)
        if device is not None and device.type not in (self.device, "cpu", "meta"):
            self.elsewhere[self.attribution.current()] = device.type
        if device is not None and device.type == "meta":
            options["device"] = device
        moved = func(tensor, **options) if options else tensor
        if not _names(device, self.device) or isinstance(moved, torch.nn.Parameter):
            return moved
        return self._place(moved.view_as(moved) if moved is tensor else moved)


def is_placed(tensor: torch.Tensor) -> bool:
    return getattr(tensor, "placed", False)


def _names(device: Any, kind: str) -> bool:
    return device is not None and torch.device(device).type == kind


def _to_meta(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(META) if tensor.device.type == "cpu" and tensor.dim() else tensor


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
    with undispatched():
        virtual = virtual_tensor(interned((0,), (1,), tensor.dtype), None, tensor.requires_grad)
    if isinstance(tensor, torch.nn.Parameter):
        virtual._is_param, virtual.__class__ = True, _Parameter
    else:
        virtual.__class__ = _Buffer
    return virtual


def initialised(tensors: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
    return (tensor for tensor in tensors if not is_lazy(tensor))
