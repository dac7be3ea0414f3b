"""Calls on the CPU while a device is open: run as they are, or without data where what they make is large.

A program that runs without values (``mpsprobe run --values none``) may make a model on the CPU that does not fit this
machine, and move it then. There a large tensor of the CPU is a ``FakeTensor``, PyTorch's tensor without data, which
says ``cpu`` in C++ too. What is computed from such tensors has no data either. Small ones, and what the program reads
from a file without computing, stay real.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from math import prod
from typing import Any

import torch

from mpsprobe.doubts import GUESSED
from mpsprobe_coverage.devices.virtual.data_dependent import ONES_ASSUMPTION, assumed_scalar
from mpsprobe_coverage.devices.virtual.storages import zeros_for
from mpsprobe_coverage.devices.virtual.tensor import as_text, mapped, without_data
from mpsprobe_coverage.knowledge.calls.keys import operator_name
from mpsprobe_coverage.knowledge.calls.spec import CPU, TensorSpec, spec_of, tensors_in
from mpsprobe_coverage.recording.attribution import Attribution
from mpsprobe_coverage.recording.dispatch import Dispatch

LARGE = 2**20
"""Elements, from which on a tensor of the CPU has no data."""
ZEROS_ASSUMPTION = "zeros"
WRITTEN_ASSUMPTION = "unknown values were written into a tensor of the CPU, which keeps those that it had"
_TRUE_OF_GOOD_DATA = frozenset({"aten::all", "aten::_is_all_true"})


class Elsewhere:
    """Runs calls on the CPU for one device, which is open."""

    def __init__(self, dispatch: Dispatch, attribution: Attribution) -> None:
        self._dispatch, self._attribution = dispatch, attribution
        self.data = True  # every tensor of the CPU has its data, whatever its size
        self._mode: Any = None  # importing it takes a second
        self._undo = ExitStack()
        self.close = self._undo.close

    def is_without_data(self, elements: int) -> bool:
        """Whether a new tensor of so many has no data."""
        return not self.data and elements > LARGE

    def run(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """A call of ``func`` on the CPU; ``types`` are the classes of its tensors."""
        result = func(*args, **kwargs) if self.data else self._run(func, types, args, kwargs)
        if self._dispatch.phase is not None and isinstance(result, torch.Tensor):
            self._attribution.mark(result)  # the line to mend if the device meets it
        return result

    def _run(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not without_data.isdisjoint(types):
            return self._without_values(func, args, kwargs)
        if not _may_be_large(func, args, kwargs):
            return func(*args, **kwargs)
        try:
            # Its own way from a tensor to one without data reads all of it.
            made = self._shapes_of(
                func, mapped(self._large_without_data, args), mapped(self._large_without_data, kwargs)
            )
        except Exception:  # noqa: BLE001 - whatever it is: the CPU decides
            return func(*args, **kwargs)
        return made if any(tensor.numel() > LARGE for tensor in tensors_in(made)) else func(*args, **kwargs)

    def empty(self, spec: TensorSpec) -> torch.Tensor:
        """A tensor of the CPU without data."""
        options = {"dtype": spec.dtype, "device": CPU}
        made: torch.Tensor = self._shapes_of(torch.ops.aten.empty_strided.default, (spec.shape, spec.stride), options)
        return made

    def _without_values(self, func: Any, args: Any, kwargs: Any) -> Any:
        from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

        try:
            made = self._shapes_of(func, args, kwargs)
        except DataDependentOutputException:
            self._dispatch.assumed(operator_name(func), GUESSED)
            return assumed_scalar(func, tensors_in((args, kwargs))[0])
        except DynamicOutputShapeException:
            self._dispatch.assumed(operator_name(func), ONES_ASSUMPTION)
            return mapped(self._large_without_data, func(*mapped(_ones, args), **mapped(_ones, kwargs)))
        if func._schema.is_mutable and _is_written(func, args, kwargs):
            self._dispatch.assumed(operator_name(func), WRITTEN_ASSUMPTION)
        if func._schema.name in _TRUE_OF_GOOD_DATA:
            made.assumed_truth = True
        return made

    def _large_without_data(self, value: Any) -> Any:
        large = isinstance(value, torch.Tensor) and value.numel() > LARGE
        return self.empty(spec_of(value)) if large else value

    def _shapes_of(self, func: Any, args: Any, kwargs: Any) -> Any:
        with self._fakes():
            return func(*args, **kwargs)

    def _fakes(self) -> Any:
        if self._mode is None:
            from torch._subclasses import FakeTensor, FakeTensorMode

            without_data.add(FakeTensor)
            self._mode = _mode(FakeTensorMode)
            for name, value in self._methods().items():
                own = vars(FakeTensor).get(name)
                setattr(FakeTensor, name, value)
                if own is None:
                    self._undo.callback(delattr, FakeTensor, name)
                else:
                    self._undo.callback(setattr, FakeTensor, name, own)
        return self._mode

    def _methods(self) -> dict[str, Callable[..., Any]]:
        """What asks such a tensor for its memory, or says what is in it, without calling an operator."""

        def read(name: str) -> Callable[..., Any]:
            def method(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
                self._dispatch.assumed(f"Tensor.{name}", ZEROS_ASSUMPTION)
                return getattr(_zeros(tensor), name)(*args, **kwargs)

            return method

        return {
            "numpy": read("numpy"),
            "tolist": read("tolist"),
            "data_ptr": lambda tensor: _zeros(tensor).data_ptr(),
            "untyped_storage": _storage,
            "__reduce_ex__": _reduced,
            "__deepcopy__": _copied,
            "__repr__": lambda tensor, *, tensor_contents=None: as_text(tensor, None, tensor_contents),
        }


class _Inside(threading.local):
    now = False  # whether PyTorch works out shapes, and asks for the storage that a tensor has there


_inside = _Inside()


def _mode(kind: Any) -> Any:
    class Mode(kind):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            before, _inside.now = _inside.now, True
            try:
                return super().__torch_dispatch__(func, types, args, kwargs)
            finally:
                _inside.now = before
                # It remembers by weak references, with which a module could not swap its parameters when it is moved.
                self.fake_tensor_converter.meta_converter.tensor_memo.clear()

    return Mode(allow_non_fake_inputs=True)


_own_storage: Any = torch.Tensor.untyped_storage


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    own: torch.UntypedStorage = _own_storage(tensor)
    return own if _inside.now else zeros_for(own)


def _zeros(tensor: torch.Tensor) -> torch.Tensor:
    made = torch.empty(0, dtype=tensor.dtype, device=CPU)
    return made.set_(_storage(tensor), tensor.storage_offset(), tensor.shape, tensor.stride())


def _reduced(tensor: torch.Tensor, _protocol: Any) -> Any:
    """As of an ordinary tensor: in a file nothing says that it had no data."""
    if isinstance(tensor, torch.nn.Parameter):
        return torch._utils._rebuild_parameter, (tensor.detach(), tensor.requires_grad, OrderedDict())
    return _zeros(tensor).requires_grad_(tensor.requires_grad).__reduce_ex__(2)


def _copied(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    if id(tensor) not in memo:
        copied: Any = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        if isinstance(tensor, torch.nn.Parameter):
            copied._is_param = True
        memo[id(tensor)] = copied
    made: torch.Tensor = memo[id(tensor)]
    return made


def _may_be_large(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether it makes something of its own that may be large: from large tensors, or of a large size."""
    if func.is_view or func._schema.is_mutable:
        return False
    tensors = tensors_in((args, kwargs))
    if tensors:
        return sum(tensor.numel() for tensor in tensors) > LARGE or _asks_for_many(args[1:])
    return _asks_for_many(args)


def _asks_for_many(args: Any) -> bool:
    """Whether there is a size among them, or an end of a range, of more than ``LARGE``."""
    for value in args:
        if isinstance(value, (int, float)) and value > LARGE:
            return True
        if isinstance(value, (list, tuple)) and all(isinstance(s, int) for s in value) and prod(value) > LARGE:
                return True
    return False


def _is_written(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether a real tensor is among the arguments that are written."""
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            written = args[position] if position < len(args) else kwargs.get(argument.name)
            if any(type(tensor) not in without_data for tensor in tensors_in(written)):
                return True
    return False


def _ones(value: Any) -> Any:
    if type(value) not in without_data:
        return value
    return torch.ones((), dtype=value.dtype, device=CPU).expand(value.shape)
