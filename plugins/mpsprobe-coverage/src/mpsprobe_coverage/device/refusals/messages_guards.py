"""A guard: a message in libtorch_cpu.dylib, the operators whose kernels raise with it, and which calls they refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from mpsprobe_coverage.device.refusals.call import Call
from mpsprobe_coverage.device.tensor import TensorSpec, VirtualTensor

COMPLEX = frozenset({torch.complex32, torch.complex64, torch.complex128})
FLOATING = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
INTEGRAL = frozenset(
    {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64}
)
BOOL = frozenset({torch.bool})
LONG = frozenset({torch.int64})
DTYPES = COMPLEX | FLOATING | INTEGRAL | BOOL
"""What is meant by "every dtype"; MPS has neither quantised types nor, before 2.15, 8-bit floating-point ones."""


@dataclass(frozen=True, slots=True)
class Argument:
    """The dtype of one tensor argument, or of the tensors in a list, is one of ``dtypes``."""

    name: str
    dtypes: frozenset[torch.dtype]

    def __call__(self, call: Call) -> bool:
        value = call.argument(self.name)
        values = value if isinstance(value, (list, tuple)) else (value,)
        return any(isinstance(one, torch.Tensor) and one.dtype in self.dtypes for one in values)


@dataclass(frozen=True, slots=True)
class Result:
    """The dtype of the first result is one of ``dtypes``: for kernels by element, the dtype they compute in."""

    dtypes: frozenset[torch.dtype]

    def __call__(self, call: Call) -> bool:
        return bool(call.outputs) and call.outputs[0].dtype in self.dtypes


@dataclass(frozen=True, slots=True)
class Shape:
    """Something about sizes or arguments that holds for any dtype."""

    refuses: Callable[[Call], bool]
    dtypes: None = None

    def __call__(self, call: Call) -> bool:
        return self.refuses(call)


@dataclass(frozen=True, slots=True)
class Both:
    """A dtype and something else."""

    dtype: Argument | Result
    refuses: Callable[[Call], bool]

    @property
    def dtypes(self) -> frozenset[torch.dtype]:
        return self.dtype.dtypes

    def __call__(self, call: Call) -> bool:
        return self.dtype(call) and self.refuses(call)


Condition = Argument | Result | Shape | Both


@dataclass(frozen=True, slots=True)
class Guard:
    """One check of a kernel.

    Attributes:
        marker: which message it raises with (``kernels/markers.py``); the guard is there in the releases whose library
            has that message.
        operators: names without overload: every overload that has a kernel is meant, and the in-place operator with
            the same name and an underscore. Or names with an overload: that one is meant.
        refuses: the calls that raise.
        before: the release from which on the message is there, but the check is another one; None if it stays.
    """

    marker: str
    operators: tuple[str, ...]
    refuses: Condition
    before: str | None = field(default=None)


def spec(call: Call, name: str) -> TensorSpec | None:
    """The spec of the tensor argument ``name``; None where the call has none."""
    value = call.argument(name)
    return value.spec if type(value) is VirtualTensor else None


def other_than(*dtypes: frozenset[torch.dtype]) -> frozenset[torch.dtype]:
    """Every dtype but these."""
    return DTYPES.difference(*dtypes)
