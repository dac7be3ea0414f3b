"""Calls on the CPU while a device is open: run as they are, or without data where what they make is large.

A program that runs without values (``mpsprobe run --values none``) may make a model on the CPU that does not fit this
machine, and move it then. There a large tensor of the CPU is a ``FakeTensor``, PyTorch's tensor without data, which
says ``cpu`` in C++ too. What is computed from such tensors has no data either. Small ones, and what the program reads
from a file without computing, stay real.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.devices.virtual.data_dependent import ONES_ASSUMPTION, assumed_scalar, known_values_of
from mpsprobe_coverage.devices.virtual.execution import lacks_code
from mpsprobe_coverage.devices.virtual.mps_in_python import replacing
from mpsprobe_coverage.devices.virtual.tensor import (
    as_text,
    undispatched,
    virtual_tensor,
    with_tensors,
    without_data,
    zeros_for,
)
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.keys import operator_name, overload_named
from mpsprobe_coverage.knowledge.calls.spec import CPU, META, Specs, TensorSpec, spec_of, specs_in, tensors_in
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.recording.attribution import Attribution, Origin
from mpsprobe_coverage.recording.dispatch import Dispatch, written_arguments
from mpsprobe_coverage.recording.recorder import Recorder
from mpsprobe_coverage.recording.release_questions import is_composite

LARGE = 2**20  # elements, from which on a tensor of the CPU has no data
ZEROS_ASSUMPTION = "zeros"
WRITTEN_ASSUMPTION = "unknown values were written into a tensor of the CPU, which keeps those that it had"
_TRUE_OF_GOOD_DATA = frozenset({"aten::all", "aten::_is_all_true"})
_IMPLICIT = DispatchKey.CompositeImplicitAutograd
_TO_COPY = torch.ops.aten._to_copy.default
_REAL = "mpsprobe real"  # where they have that what they copy to the CPU belongs to the program
_CALL = "mpsprobe fallback"  # where autograd nodes of copies have the call that they belong to
_current_node: Callable[[], Any] = torch._C._current_autograd_node


class Elsewhere:
    def __init__(self, dispatch: Dispatch, attribution: Attribution) -> None:
        self._dispatch, self._attribution = dispatch, attribution
        self.data = True  # every tensor of the CPU has its data, whatever its size
        self._mode: Any = None  # importing it takes a second
        self._undo = ExitStack()
        self.close = self._undo.close

    def run(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
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
            result = self._shapes_of(func, *with_tensors(self._large_without_data, (args, kwargs)))
        except Exception:  # noqa: BLE001 - whatever it is: the CPU decides
            return func(*args, **kwargs)
        return result if any(tensor.numel() > LARGE for tensor in tensors_in(result)) else func(*args, **kwargs)

    def empty(self, spec: TensorSpec) -> torch.Tensor:
        options = {"dtype": spec.dtype, "device": CPU}
        tensor: torch.Tensor = self._shapes_of(torch.ops.aten.empty_strided.default, (spec.shape, spec.stride), options)
        return tensor

    def _without_values(self, func: Any, args: Any, kwargs: Any) -> Any:
        from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

        try:
            result = self._shapes_of(func, args, kwargs)
        except DataDependentOutputException:
            return self._dispatch.guessed(operator_name(func), assumed_scalar(func, tensors_in((args, kwargs))[0]))
        except DynamicOutputShapeException:
            self._dispatch.assumed(operator_name(func), ONES_ASSUMPTION)
            ones, named = with_tensors(_ones, (args, kwargs))
            return with_tensors(self._large_without_data, func(*ones, **named))
        written = tensors_in(written_arguments(self._dispatch.plan_of(func), args, kwargs))
        if any(type(tensor) not in without_data for tensor in written):
            self._dispatch.assumed(operator_name(func), WRITTEN_ASSUMPTION)
        if func._schema.name in _TRUE_OF_GOOD_DATA:
            result.assumed_truth = True
        return result

    def _large_without_data(self, tensor: torch.Tensor) -> torch.Tensor:
        return self.empty(spec_of(tensor)) if tensor.numel() > LARGE else tensor

    def _shapes_of(self, func: Any, args: Any, kwargs: Any) -> Any:
        with self._fakes():
            return func(*args, **kwargs)

    def _fakes(self) -> Any:
        if self._mode is None:
            from torch._subclasses import FakeTensor, FakeTensorMode

            without_data.add(FakeTensor)
            self._mode = _mode(FakeTensorMode)
            replace, _ = self._undo.enter_context(replacing())
            for name, value in self._methods().items():
                replace(FakeTensor, name, value)
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
    zeros = torch.empty(0, dtype=tensor.dtype, device=CPU)
    return zeros.set_(_storage(tensor), tensor.storage_offset(), tensor.shape, tensor.stride())


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
    if func.is_view or func._schema.is_mutable:
        return False
    tensors = tensors_in((args, kwargs))
    sizes = args[1:] if tensors else args
    return sum(tensor.numel() for tensor in tensors) > LARGE or any(map(_is_many, sizes))


def _is_many(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(isinstance(size, int) for size in value) and prod(value) > LARGE
    return isinstance(value, (int, float)) and value > LARGE


def _ones(tensor: torch.Tensor) -> torch.Tensor:
    return (
        torch.ones((), dtype=tensor.dtype, device=CPU).expand(tensor.shape) if type(tensor) in without_data else tensor
    )


# Registered fallbacks that autograd goes through: the operator runs on the CPU, and so does its derivative.
#
# PyTorch's fallback (`aten/src/ATen/native/CPUFallback.cpp`) copies its arguments to the CPU, calls the operator there
# and copies the results back. Where an operator has a derivative of its own, autograd is done before. One that is
# composite (`linalg_svd`) has no autograd kernel, and autograd is on inside the fallback: it records the copies and
# what the operator is made of, `ToCopyBackward0` ← `LinalgSvdBackward0` ← `ToCopyBackward0`. So it trains on a Mac,
# and its gradients are copied to the CPU and back. A backend that shows it is in the tests (`fallback_backend.cpp`).
#
# Here a kernel above autograd makes the same copies and the same call. What comes to the CPU is a `FakeTensor`,
# PyTorch's tensor without data, or a real one where the values are known.
@dataclass(slots=True, eq=False)
class FallbackCall:
    """A call of the forward pass, and the gradients that were copied for it since its derivative was last recorded."""

    operator: str
    judgement: Judgement
    origin: Origin
    to_cpu: dict[int, TensorSpec] = field(default_factory=dict)  # by the number of the result that they are of
    from_cpu: list[TensorSpec] = field(default_factory=list)

    def record(self, recorder: Recorder) -> None:
        recorder.call(self.operator, self.judgement, self.origin, tuple(self.to_cpu.values()), tuple(self.from_cpu))
        self.to_cpu, self.from_cpu = {}, []


class OnTheCPU:
    """Runs such fallbacks, and answers for the copies that they and their derivatives make."""

    def __init__(self, dispatch: Dispatch, recorder: Recorder, attribution: Attribution) -> None:
        self._dispatch, self._recorder, self._attribution = dispatch, recorder, attribution
        self._copying = False  # is it a fallback that copies now?
        self._with_gradients: dict[FallbackCall, None] = {}
        self._used = False
        self._fakes: Any = None  # torch's mode for tensors without data; importing it takes a second

    def kernels(self) -> dict[str, Callable[..., Any]]:
        names = (name for name in self._dispatch.table.fallback if name.startswith("aten::"))
        return {name: partial(self._run, overload_named(name)) for name in names if is_composite(name)}

    def _run(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors_in((args, kwargs))):
            with torch._C._AutoDispatchBelowAutograd():
                return func(*args, **kwargs)
        with self._copies():
            there = with_tensors(lambda t: t if t.is_cpu else _TO_COPY(t, device=CPU), (args, kwargs))
        try:
            result = self._there(func, *there)
        except Exception:  # a checkpoint ends its second run so, here inside the call
            self._record(func, args, kwargs, ())
            raise
        call = self._record(func, args, kwargs, specs_in(result))
        for number, copy in enumerate((*tensors_in(result), *tensors_in(there))):
            if copy.grad_fn is not None:
                node: Any = copy.grad_fn
                node.metadata[_CALL] = call, number
        return result

    def _there(self, func: Any, args: Any, kwargs: Any) -> Any:
        try:
            results = func._op_dk(_IMPLICIT, *args, **kwargs)
        except NotImplementedError as error:  # only where values are known: FakeTensors have code for every dtype
            if not lacks_code(error):
                raise
            dtype = tensors_in((args, kwargs))[0].dtype
            args, kwargs = with_tensors(_cast(dtype, torch.float32), (args, kwargs))
            results = with_tensors(_cast(torch.float32, dtype), func._op_dk(_IMPLICIT, *args, **kwargs))
        with self._copies():
            return with_tensors(lambda tensor: _TO_COPY(tensor, device=META), results)

    def _record(self, func: Any, args: Any, kwargs: Any, outputs: Specs) -> FallbackCall:
        plan, inputs = self._dispatch.plan_of(func), specs_in((args, kwargs))
        example = Call(func, args, kwargs, inputs, outputs)
        judgement = plan.judges.judge(example)
        call = FallbackCall(plan.name, judgement, self._attribution.current())
        if self._recorder.phase is not None:
            self._recorder.call(call.operator, judgement, call.origin, inputs, outputs)
            self._recorder.example(call.operator, judgement, example)
        return call

    @contextmanager
    def _copies(self) -> Iterator[None]:
        self._copying = self._used = True
        try:
            yield
        finally:
            self._copying = False

    def arriving(self, tensor: torch.Tensor, kwargs: dict[str, Any]) -> torch.Tensor | None:
        """What ``_to_copy`` to the CPU makes of ``tensor``, if it is for a fallback or its derivative; else None."""
        if not self._copying:
            node = _current_node()
            if node is not None and _REAL in node.metadata:
                return self._real(tensor, kwargs)
            # A second derivative copies too, in nodes that the first one made.
            if not self._used or node is None or node.name() != "ToCopyBackward0":
                return None
            self._crossed(node, spec_of(tensor), to_cpu=True)
        known = known_values_of(tensor)
        if known is None and not (tensor.is_floating_point() or tensor.is_complex()):
            known = self._dispatch.known_or_assumed(tensor, "aten::_to_copy", "ones", fill=1)
        if known is not None:
            copied: torch.Tensor = _TO_COPY(known, **kwargs)
            return copied
        spec = _spec_of_copy(tensor, kwargs)
        with self._fake_mode():
            return torch.empty_strided(spec.shape, spec.stride, dtype=spec.dtype, device=CPU)

    def _real(self, tensor: torch.Tensor, kwargs: dict[str, Any]) -> torch.Tensor:
        """A gradient for the CPU's own tensors: zeros, where it is not known; the program reads no value here."""
        self._dispatch.record_transfer(tensor, kwargs.get("dtype"))
        known = known_values_of(tensor)
        copied: torch.Tensor = _TO_COPY(spec_of(tensor).filled(0) if known is None else known, **kwargs)
        return copied

    def leaving(self, tensor: torch.Tensor, kwargs: dict[str, Any]) -> torch.Tensor | None:
        """What ``_to_copy`` from the CPU makes of ``tensor``, if a fallback or its derivative made that; else None."""
        if not self._used:
            return None
        if not self._copying and not self._crossed(_current_node(), spec_of(tensor)) and not self._is_fake(tensor):
            return None
        spec = _spec_of_copy(tensor, kwargs)
        known = not self._is_fake(tensor) and spec.shadow_cost <= self._dispatch.shadow_limit
        with undispatched():
            return virtual_tensor(spec, tensor.detach().to(spec.dtype, copy=True) if known else None)

    def _crossed(self, node: Any, spec: TensorSpec, to_cpu: bool = False) -> bool:
        """Note the copy of a gradient that ``node`` makes, if it is one for a fallback."""
        marked: tuple[FallbackCall, int] | None = None if node is None else node.metadata.get(_CALL)
        if marked is None:
            return False
        call, number = marked
        if self._recorder.phase is not None:
            if number in call.to_cpu:  # a second backward pass through the same graph
                call.record(self._recorder)
            self._with_gradients[call] = None
            if to_cpu:
                call.to_cpu[number] = spec
            else:
                call.from_cpu.append(spec)
        return True

    def record_gradients(self) -> None:
        for call in self._with_gradients:
            call.record(self._recorder)
        self._with_gradients.clear()

    def _fake_mode(self) -> Any:
        if self._fakes is None:
            from torch._subclasses import FakeTensor, FakeTensorMode

            without_data.add(FakeTensor)
            self._fakes = FakeTensorMode(allow_non_fake_inputs=True)
        return self._fakes

    def _is_fake(self, tensor: torch.Tensor) -> bool:
        return self._fakes is not None and getattr(tensor, "fake_mode", None) is self._fakes


def keep_real(moved: torch.Tensor) -> None:
    """The program moved a tensor from the CPU: its gradient goes back to where tensors have data."""
    node: Any = moved.grad_fn
    node.metadata[_REAL] = True


def _cast(before: torch.dtype, after: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: tensor.to(after) if tensor.dtype is before else tensor


def _spec_of_copy(tensor: torch.Tensor, kwargs: dict[str, Any]) -> TensorSpec:
    with undispatched():
        return spec_of(_TO_COPY(spec_of(tensor).empty(), **{**kwargs, "device": META}))
