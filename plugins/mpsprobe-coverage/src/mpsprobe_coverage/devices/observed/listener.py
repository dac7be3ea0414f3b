"""The listener in C++ (``observer.cpp``): every call of every thread, at a microsecond each, by kinds."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from enum import IntFlag
from functools import cache
from typing import Any, NamedTuple

import torch

from mpsprobe_coverage.devices.compiling import OBSERVER
from mpsprobe_coverage.knowledge.calls.spec import Specs, TensorSpec, interned
from mpsprobe_coverage.recording.attribution import NOWHERE, Attribution, Origin
from mpsprobe_coverage.recording.phases import PHASES, optimizers_followed

LEFT_OUT = -1
_PLACE = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_int64))
# In the order of c10/core/Layout.h.
_LAYOUTS = (
    torch.strided, torch.sparse_coo, torch.sparse_csr, torch.strided, torch.sparse_csc, torch.sparse_bsr,
    torch.sparse_bsc, torch.jagged,
)  # fmt: skip
# C++ writes the types of numbers in its own way; most others are written alike.
_DTYPES = {
    "Byte": torch.uint8, "Char": torch.int8, "Short": torch.int16, "Int": torch.int32, "Long": torch.int64,
    "Half": torch.float16, "Float": torch.float32, "Double": torch.float64, "BFloat16": torch.bfloat16,
    "ComplexHalf": torch.complex32, "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128,
    "Bool": torch.bool,
}  # fmt: skip


class Happened(IntFlag):
    """What was seen of a call; the numbers are those of ``observer.cpp``."""

    FELL_BACK = 1  # PyTorch's CPU fallback ran it
    REGISTERED = 2  # the device has a kernel for it, or it is made of other operators
    RAISED = 4
    THERE_AND_BACK = 8  # its kernel copied to the CPU and back


class Kind(NamedTuple):
    """Calls that agree in all of this. ``inputs`` and ``outputs`` are None where their tensors were left out."""

    operator: str
    device: str
    phase: str
    origin: Origin
    happened: Happened
    inputs: Specs | None
    outputs: Specs | None


class Counted(NamedTuple):
    kind: Kind
    calls: int
    to_cpu_bytes: int
    from_cpu_bytes: int


class Listener:
    """There is one in a process; ``observe.py`` shares out what it sees. ``UsageError`` where it cannot be built."""

    def __init__(self) -> None:
        _load()
        self._places: dict[Origin, int] = {NOWHERE: 0}
        self._origins = [NOWHERE]
        self._attribution: Attribution | None = None
        self._error: BaseException | None = None
        self._place = _PLACE(self._placed)
        self._optimizers = ExitStack()

    def start(self, attribution: Attribution | None) -> None:
        self._attribution = attribution
        place = 0 if attribution is None else _address(self._place)
        torch.ops.mpsprobe_observer.start(place, _address(ctypes.pythonapi.PyErr_SetInterrupt))
        self._optimizers.enter_context(optimizers_followed(torch.ops.mpsprobe_observer.in_optimizer))

    def stop(self) -> None:
        """See no more, and raise what went wrong while places were looked up."""
        self._optimizers.close()
        torch.ops.mpsprobe_observer.stop()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def take(self) -> list[Counted]:
        words = torch.ops.mpsprobe_observer.take()
        names = torch.ops.mpsprobe_observer.operators()
        kinds, position = [], 0
        while position < len(words):
            end = position + 1 + words[position]
            kinds.append(self._counted(words[position + 1 : end], names))
            position = end
        return kinds

    def _counted(self, words: Sequence[int], names: Sequence[str]) -> Counted:
        calls, to_cpu, from_cpu, operator, place, phase, device_and_flags, *tensors = words
        reader = iter(tensors)
        kind = Kind(
            names[operator],
            _device(device_and_flags & 0xFF),
            PHASES[phase],
            self._origins[place],
            Happened(device_and_flags >> 8),
            _specs(reader),
            _specs(reader),
        )
        return Counted(kind, calls, to_cpu, from_cpu)

    def _placed(self, answer: Any) -> None:
        try:
            assert self._attribution is not None
            origin = self._attribution.current()
            number = self._places.get(origin)
            if number is None:
                number = self._places[origin] = len(self._origins)
                self._origins.append(origin)
            answer[0] = number
        except KeyboardInterrupt:
            pass  # C++ has Python raise it after the call
        except BaseException as error:  # noqa: BLE001 - it cannot pass through C++
            self._error = self._error or error
            answer[0] = 0


@cache
def _load() -> None:
    OBSERVER.load()
    hold = torch.ops.mpsprobe_observer.hold
    if hasattr(os, "register_at_fork"):
        # A thread that counts while another one forks must not leave its lock closed in the child, which sees nothing.
        os.register_at_fork(before=lambda: hold(True), after_in_parent=lambda: hold(False), after_in_child=_forked)


def _forked() -> None:
    torch.ops.mpsprobe_observer.hold(False)
    torch.ops.mpsprobe_observer.stop()


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@cache
def _device(number: int) -> str:
    return str(torch.ops.mpsprobe_observer.device_name(number))


@cache
def _dtype(number: int) -> torch.dtype:
    name = str(torch.ops.mpsprobe_observer.dtype_name(number))
    dtype: torch.dtype = _DTYPES.get(name) or getattr(torch, name.lower())
    return dtype


def _specs(words: Iterator[int]) -> tuple[TensorSpec, ...] | None:
    count = next(words)
    return None if count == LEFT_OUT else tuple([_spec(words) for _ in range(count)])


def _spec(words: Iterator[int]) -> TensorSpec:
    head = next(words)
    dtype, layout, rank = _dtype(head & 0xFF), _LAYOUTS[head >> 8 & 0xFF], head >> 24
    shape = tuple([next(words) for _ in range(rank)])
    if layout is torch.strided:
        return interned(shape, tuple([next(words) for _ in range(rank)]), dtype)
    sparse, dense, stored = next(words), next(words), next(words)
    stride = tuple(torch.empty(shape, device="meta").stride())
    form = (sparse, stored, False) if layout is torch.sparse_coo else (dense, stored, (), torch.int64)
    return interned(shape, stride, dtype, layout, form)
