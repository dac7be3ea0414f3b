"""Building a model without its weights, and with everything small that its control flow may read.

``torch.device("meta")`` alone loses too much: position ids, masks and tables of indices are data that
models look at. Here what parameters are made of (``empty``, ``rand``, ``randn`` …) goes to meta, and
every other factory runs on the CPU as long as what it makes is small.

What was asked for on the device, and what is computed from that, is marked as ``placed`` there: on a Mac it is on the
device, while other tensors stay on the CPU unless the model moves them. ``torch.backends.mps`` and ``torch.mps`` answer
as on a Mac: models ask them whether to make tables in float64 (Lumina2's rotary embedding in diffusers 0.42).
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_map

from mpsprobe_coverage.devices.virtual.mps_in_python import default_generator, mps_in_python, replacing
from mpsprobe_coverage.devices.virtual.tensor import MPS, parse_to
from mpsprobe_coverage.knowledge.calls.spec import CPU, META, tensors_in
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
                moved_args, moved_kwargs = tree_map(_to_meta, (args, kwargs))
                with suppress(RuntimeError):
                    return func(*moved_args, **moved_kwargs)
            return self._on_unit_matrices(func, args, kwargs, error)

    def _on_unit_matrices(self, func: Any, args: Any, kwargs: Any, error: RuntimeError) -> Any:
        """What has no meta kernel, or reads a value (``parametrizations.orthogonal`` does both), from small weights."""
        tensors = tensors_in((args, kwargs))
        on_meta = [tensor for tensor in tensors if tensor.is_meta]
        if not on_meta or any(tensor.numel() > self.limit for tensor in on_meta):
            raise error
        result = func(*tree_map(_unit, args), **tree_map(_unit, kwargs))
        return tree_map(lambda v: v.to(META) if isinstance(v, torch.Tensor) else v, result)

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


def _unit(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_meta:
        return value
    if value.dim() < 2:
        return torch.ones(value.shape, dtype=value.dtype, device=CPU)
    return torch.eye(*value.shape[-2:], dtype=value.dtype, device=CPU).expand(value.shape).clone()


def _to_meta(value: Any) -> Any:
    return value.to("meta") if isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dim() else value
