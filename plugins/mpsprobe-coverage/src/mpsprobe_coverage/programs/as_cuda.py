"""A program for CUDA on the MPS device: where it says ``cuda``, it gets ``mps``.

Its own lines see CUDA: the answer to ``torch.cuda.is_available()``, and ``cuda:0`` as the device of a tensor. Libraries
and torch see a Mac, as they will once the program has changed. Devices are led at three places: a function mode, which
sees whatever makes a tensor or takes one; Python code of torch that takes the name of a device alone; and what
``torch.cuda`` calls in C++, below its own Python code.
"""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import wraps
from types import FrameType, FunctionType, SimpleNamespace
from typing import Any, Protocol

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from mpsprobe_coverage.devices.virtual import mps_in_python
from mpsprobe_coverage.devices.virtual.mps_in_python import GeneratorType, Replace, machine_or_usual, replacing
from mpsprobe_coverage.knowledge.chips.limits import limits_of
from mpsprobe_coverage.recording.capturing import eager

A_DEVICE = "a CUDA device"
MPS, CUDA = torch.device("mps", 0), torch.device("cuda", 0)
NAME = re.compile(r"cuda(:\d+)?")
_DEVICE, _IS_CUDA = torch.Tensor.device.__get__, torch.Tensor.is_cuda.__get__  # type: ignore[attr-defined]
_ANSWERS = (_DEVICE, _IS_CUDA, torch.Tensor.type)  # that say which device it is
_POOLS, _FIGURES = ("all", "large_pool", "small_pool"), ("current", "peak", "allocated", "freed")
_METRICS = ["allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes", "inactive_split_bytes"]
_METRICS += ["allocation", "segment", "active", "inactive_split"]


def is_cuda(value: object) -> bool:
    """Whether it names a CUDA device."""
    if type(value) is str:
        return NAME.fullmatch(value) is not None
    return type(value) is torch.device and value.type == "cuda"


def led(value: Any) -> Any:
    """The device of a Mac where ``value`` names one of CUDA, in the form that ``value`` has."""
    return ("mps" if type(value) is str else MPS) if is_cuda(value) else value


class Hints(Protocol):
    """Where it is noted what a program asks for, by whom its files are known (``cuda.py``)."""

    internal: Callable[[str], bool]

    def note(self, what: str, frame: FrameType | None, everyone: bool = False) -> None: ...
    def sees_cuda(self, asking: FrameType | None) -> bool: ...
    def is_own(self, file: str) -> bool: ...


class AsCuda(TorchFunctionMode):
    """The mode, of the thread that enters it; ``everywhere`` is the whole. ``torch.cuda`` answers for ``chip``."""

    def __init__(self, hints: Hints, chip: str | None = None) -> None:
        super().__init__()
        self._hints, self._chip = hints, chip

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """In this thread and those that start from now on; torch is put back at the end."""
        with replacing() as (replace, _):
            _below_cuda(replace, self._chip)
            self._functions_of_cuda(replace)
            self._classes_of_cuda(replace)
            self._names_alone(replace)
            # The compiler of torch would look into this mode. What is compiled for MPS runs eagerly here anyway.
            replace(torch, "compile", eager)
            start = threading.Thread.start

            def started(thread: threading.Thread) -> None:
                thread.run = self._inside(thread.run)  # type: ignore[method-assign]
                start(thread)

            replace(threading.Thread, "start", started)
            # In threads of autograd: the program's own functions, and what checkpointing runs again.
            backward, hooks = torch.autograd.function.BackwardCFunction, torch.autograd.graph.saved_tensors_hooks
            replace(backward, "apply", self._inside(backward.apply))
            saving = hooks.__init__

            def saved(held: Any, pack: Any, unpack: Any) -> None:
                saving(held, pack, self._inside(unpack))

            replace(hooks, "__init__", saved)
            with self:
                yield

    def _inside(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            with nullcontext() if self in _get_current_function_mode_stack() else self:
                return call(*args, **named)

        return run

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named, asking = dict(kwargs or {}), sys._getframe(1)
        own = func in _ANSWERS and self._hints.is_own(asking.f_code.co_filename)
        if own and func != torch.Tensor.type:
            there = _DEVICE(args[0])
            if func == _IS_CUDA:
                self._hints.note("Tensor.is_cuda", asking)
                return there.type == "mps"
            return CUDA if there.type == "mps" else there
        if func is torch.Tensor.backward:  # the program's hooks and functions are called in it
            given = inspect.signature(func).bind(*args, **named).arguments
            with self:
                return torch.autograd.backward(given.pop("self"), given.pop("gradient", None), **given)
        if func is torch.device:  # the program's own stays what it made
            if any(map(is_cuda, (*args, *named.values()))):
                self._hints.note(A_DEVICE, asking)
            return func(*args, **named)
        if func is torch.Tensor.cuda:
            named = {**dict(zip(("device", "non_blocking", "memory_format"), args[1:], strict=False)), **named}
            func, args, named["device"] = torch.Tensor.to, args[:1], CUDA
        kind = _type_asked(args, named) if func is torch.Tensor.type else None
        if kind is not None:
            func, args, named = torch.Tensor.to, args[:1], {"device": CUDA, "dtype": kind.dtype}
        if func is torch.Tensor.to and type(args[-1]) is int:  # a Mac takes the number of the GPU too
            args = (args[0], MPS)
        if type(named.get("device")) is int:
            named["device"] = MPS
        if any(map(is_cuda, args)) or any(map(is_cuda, named.values())):
            self._hints.note(A_DEVICE, asking, everyone=True)
            args = tuple(map(led, args))
            named = {name: led(value) for name, value in named.items()}
        result = func(*args, **named)
        return result.replace("torch.mps.", "torch.cuda.") if own and type(result) is str else result

    def _functions_of_cuda(self, replace: Replace) -> None:
        """Each is noted, and says so where MPS has nothing like it."""

        def device_count() -> int:
            asking = sys._getframe(1)
            if self._hints.is_own(asking.f_code.co_filename):
                self._hints.note("torch.cuda.device_count()", asking)
            return int(self._hints.sees_cuda(asking))

        counted = torch.cuda.device_count
        for module in [module for name, module in sys.modules.items() if f"{name}.".startswith("torch.cuda.")]:
            for name, value in [*vars(module).items()]:
                of_cuda = isinstance(value, FunctionType) and value.__module__.startswith("torch.cuda")
                if value is counted:
                    replace(module, name, device_count)
                elif of_cuda and not name.startswith("_") and name != "is_available":
                    replace(module, name, self._noted(value))

    def _noted(self, function: FunctionType) -> Callable[..., Any]:
        name = function.__name__
        where = "torch.cuda" if hasattr(torch.cuda, name) else function.__module__

        def device_of_cuda(value: Any) -> Any:
            return CUDA if type(value) is torch.device and value.type == "mps" else value

        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            asking = sys._getframe(1)
            if self._hints.internal(asking.f_code.co_filename):
                return function(*args, **named)
            self._hints.note(f"{where}.{name}()", asking)
            try:
                return function(
                    *map(device_of_cuda, args), **{key: device_of_cuda(value) for key, value in named.items()}
                )
            except (AttributeError, ImportError) as error:  # a function of C++, or NVIDIA's library, is not there
                raise RuntimeError(f"{where}.{name}() is of CUDA alone: MPS has nothing like it") from error

        return call

    def _classes_of_cuda(self, replace: Replace) -> None:
        hints = self._hints

        class Event(mps_in_python.Event):
            def __new__(cls, *_args: Any, **_options: Any) -> Any:
                return object.__new__(cls)

            def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
                hints.note("torch.cuda.Event()", sys._getframe(1), everyone=True)
                super().__init__(enable_timing=enable_timing)

        class Stream(mps_in_python.Stream):
            device_type = priority = cuda_stream = 0

            def __new__(cls, *_args: Any, **_options: Any) -> Any:
                return object.__new__(cls)

            def __init__(self, *args: Any, **options: Any) -> None:
                hints.note("torch.cuda.Stream()", sys._getframe(1), everyone=True)
                super().__init__(*args, **options)

        for kind in (Event, Stream):
            replace(torch.cuda, kind.__name__, kind)
            replace(torch.cuda.streams, kind.__name__, kind)
        for name, kind in [*vars(torch.cuda).items()]:
            if isinstance(kind, type) and name.endswith("Tensor") and hasattr(torch, name):
                replace(torch.cuda, name, _TensorType(name, (), {"__module__": "torch.cuda", "dtype": kind.dtype}))  # type: ignore[attr-defined]
        for unmade in (torch.cuda.CUDAGraph, torch.cuda.MemPool):  # neither can be made
            replace(unmade, "__new__", self._unmade(unmade.__new__))
        entered = torch.cuda.device.__enter__

        def enter(guard: Any) -> Any:
            hints.note("torch.cuda.device()", sys._getframe(1))
            return entered(guard)

        replace(torch.cuda.device, "__enter__", enter)

    def _unmade(self, original: Any) -> Any:
        def make(cls: Any, *args: Any, **named: Any) -> Any:
            self._hints.note(f"torch.cuda.{cls.__name__}()", sys._getframe(1), everyone=True)
            return original(cls, *args, **named)

        return make

    def _names_alone(self, replace: Replace) -> None:
        """Python code of torch that makes no tensor where it is called with the name of a device."""

        def leading(owner: Any, name: str, default: bool = False) -> None:
            original = getattr(owner, name)

            @wraps(original)
            def call(*args: Any, **named: Any) -> Any:
                if any(map(is_cuda, args)) or any(map(is_cuda, named.values())):
                    self._hints.note(A_DEVICE, sys._getframe(1))
                elif default:
                    args = (*args, "mps")
                return original(*map(led, args), **{key: led(value) for key, value in named.items()})

            replace(owner, name, call)

        leading(DeviceContext, "__init__")
        leading(torch.serialization, "default_restore_location")
        for name in ("custom_fwd", "custom_bwd"):
            leading(torch.amp, name)
        for name in ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_enabled", "set_autocast_dtype"):
            leading(torch, name)
        made, storage = torch.Generator, torch.storage._StorageBase

        class Generator(metaclass=GeneratorType):
            def __new__(cls, device: Any = "cpu") -> Any:
                return made(led(device))

        replace(torch, "Generator", Generator)

        def moved(held: Any, *_args: Any, **_named: Any) -> Any:
            self._hints.note(A_DEVICE, sys._getframe(1))
            return held.mps()

        replace(storage, "cuda", moved)
        replace(torch.Tensor, "record_stream", lambda *_: self._hints.note("Tensor.record_stream()", sys._getframe(1)))
        set_type = torch.set_default_tensor_type

        def set_default_tensor_type(kind: Any) -> None:
            wanted = _type_asked((None, kind), {})
            if wanted is None:
                return set_type(kind)
            self._hints.note("torch.set_default_tensor_type()", sys._getframe(1))
            torch.set_default_dtype(wanted.dtype)
            return torch.set_default_device(MPS)

        replace(torch, "set_default_tensor_type", set_default_tensor_type)


class _TensorType(type):
    """``torch.cuda.FloatTensor`` and its like."""

    def __instancecheck__(cls, value: object) -> bool:
        there = isinstance(value, torch.Tensor) and value.dtype == cls.dtype  # type: ignore[attr-defined]
        return there and value.device.type != "cpu"  # type: ignore[attr-defined]

    def __call__(cls, *args: Any) -> Any:
        return getattr(torch, cls.__name__)(*args).to(CUDA)


def _type_asked(args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Of the arguments of ``Tensor.type``, the type of CUDA; ``None`` where it is none."""
    asked = args[1] if len(args) > 1 else named.get("dtype")
    if type(asked) is str and asked.startswith("torch.cuda."):
        asked = getattr(torch.cuda, asked.removeprefix("torch.cuda."), None)
    return asked if type(asked) is _TensorType else None


class _Idle:
    """A library of CUDA whose functions do nothing."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_: 0


def _below_cuda(replace: Replace, chip: str | None) -> None:
    """What ``torch.cuda`` calls in C++, answered for one MPS device; it has no more, and does everything at once."""
    machine = machine_or_usual(chip)
    total = limits_of(machine).recommended.low

    def figures(metric: str) -> dict[str, int]:
        statistics = getattr(torch._C, "_accelerator_getDeviceStats", None)
        known = statistics(0) if statistics else {}
        if metric in known:
            return {figure: known[metric]["all"][figure] for figure in _FIGURES}
        now = torch.mps.current_allocated_memory() if metric == "allocated_bytes" and not known else 0
        return dict.fromkeys(_FIGURES, now)

    def statistics(device: int) -> dict[str, Any]:
        pools: dict[str, Any] = {metric: {"all": figures(metric)} for metric in _METRICS}
        for counts in pools.values():
            counts |= {pool: dict.fromkeys(_FIGURES, 0) for pool in _POOLS[1:]}
        pools |= {f"oversize_{name}": dict.fromkeys(_FIGURES, 0) for name in ("allocations", "segments")}
        return {**pools, "num_alloc_retries": 0, "num_ooms": 0, "num_sync_all_streams": 0, "max_split_size": -1}

    idle = "setDevice synchronize ipc_collect setStream setMemoryFraction sleep set_sync_debug_mode"
    idle += " resetPeakMemoryStats resetAccumulatedMemoryStats record_memory_history"
    answers: dict[str, Any] = {
        **{name: lambda *_, **__: None for name in idle.split()},
        **{name: lambda *_: 0 for name in ("getDevice", "exchangeDevice", "maybeExchangeDevice")},
        **{name: lambda *_: (0, 0, 0) for name in ("getCurrentStream", "getDefaultStream")},
        "emptyCache": lambda: torch.mps.empty_cache(),
        "memoryStats": statistics,
        "resetPeakMemoryStats": getattr(torch._C, "_accelerator_resetPeakStats", lambda _: None),
    }
    for name, answer in answers.items():
        replace(torch._C, f"_cuda_{name}", answer)

    def memory(_device: int) -> tuple[int, int]:
        return max(total - torch.mps.current_allocated_memory(), 0), total

    runtime = _Idle()
    runtime.cudaMemGetInfo = memory  # type: ignore[attr-defined]
    properties = SimpleNamespace(
        name=machine.chip.label,
        total_memory=total,
        multi_processor_count=max(machine.chip.gpu_cores),
        **dict.fromkeys(("major", "minor"), 0),
    )
    module: dict[str, Any] = {
        "_initialized": True,
        "_cudart": runtime,
        "_exchange_device": lambda _: 0,
        "_maybe_exchange_device": lambda _: 0,
        "_get_device_properties": lambda _: properties,
        "default_generators": (torch.mps._get_default_mps_generator(),),
    }
    for name, value in module.items():
        replace(torch.cuda, name, value)
    replace(torch.cuda.nvtx, "_nvtx", _Idle())
