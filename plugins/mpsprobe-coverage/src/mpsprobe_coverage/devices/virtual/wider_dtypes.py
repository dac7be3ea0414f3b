"""Dtypes that the reference does not compute: the call runs in another dtype in their place.

``avg_pool2d`` of uint8 or ``huber_loss`` of int32 have Metal kernels, and no code on the CPU. There the meta kernel may
refuse too. The CPU says which of two things that means: ``"huber_cpu" not implemented for 'Int'`` is the message of the
macro that picks the code for a dtype (``aten/src/ATen/Dispatch.h``), so this kernel lacks the dtype, and other
backends may have it. Any other message is the operator's own, and holds on every device.

Whether that message is about the dtype at all (``mean`` of whole numbers) or about the call (sizes that do not fit) is
found by trying: a call that another dtype does not mend is a mistake of the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from mpsprobe_coverage.devices.virtual.tensor import mapped
from mpsprobe_coverage.knowledge.calls.spec import tensors_in

# `DispatchStub.cpp` says the second of a device that no function was set for: meta, for one.
_NO_CODE = re.compile(r"\" not implemented for '|DispatchStub: (unsupported device type|missing kernel)")
_STAND_INS = (torch.float32, torch.complex64, torch.int64, torch.bool)


def lacks_code(error: BaseException) -> bool:
    """Whether a kernel raised only because it was not compiled for the dtype, or for the device."""
    return isinstance(error, RuntimeError) and _NO_CODE.search(str(error)) is not None


@dataclass(frozen=True, slots=True)
class Ran:
    """What came out, in a dtype that stands for the operator's own.

    Attributes:
        dtype: the dtype that another stood for.
        stand_in: the other.
        replaced: id of an argument → the tensor in its place.
    """

    result: Any
    dtype: torch.dtype
    stand_in: torch.dtype
    replaced: dict[int, torch.Tensor]

    def original(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype that the kernel would give where the stand-in gives ``dtype``; positions and counts stay whole."""
        if self.stand_in is torch.int64 and (self.dtype.is_floating_point or self.dtype.is_complex):
            return dtype
        return self.dtype if dtype is self.stand_in else dtype


def in_another_dtype(run: Callable[..., Any], args: Any, kwargs: Any) -> Ran | None:
    """``run`` with float32, or what else it takes, in place of the dtype of the first tensor argument.

    Other arguments of that dtype change with it. Where the operator does not take them so, because it wants them
    to be whole numbers (targets, indices), those after the first stay. None where it takes no other dtype either, and
    for arguments of several floating-point dtypes: that they differ may be what is refused.
    """
    tensors = tensors_in((args, kwargs))
    if not tensors or len({t.dtype for t in tensors if t.dim() and (t.is_floating_point() or t.is_complex())}) > 1:
        return None
    dtype = tensors[0].dtype
    alike = [tensor for tensor in tensors if tensor.dtype is dtype]
    for stand_in in _STAND_INS:
        if stand_in is dtype:
            continue
        for changed in (alike,) if len(alike) == 1 or dtype.is_floating_point else (alike, alike[:1]):
            try:
                return _run(run, args, kwargs, stand_in, changed)
            except Exception:  # noqa: BLE001 - the next one may do
                continue
    return None


def _run(run: Callable[..., Any], args: Any, kwargs: Any, dtype: torch.dtype, changed: list[torch.Tensor]) -> Ran:
    replaced = {id(t): torch.empty_like(t, dtype=dtype).copy_(t.real if t.is_complex() else t) for t in changed}

    def other(value: Any) -> Any:
        return replaced.get(id(value), value) if isinstance(value, torch.Tensor) else value

    new_args, new_kwargs = mapped(other, (args, kwargs))
    return Ran(run(*new_args, **new_kwargs), changed[0].dtype, dtype, replaced)
