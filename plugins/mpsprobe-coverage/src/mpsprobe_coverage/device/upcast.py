"""Dtypes that MPS computes and the CPU does not: the reference runs in float32 in their place.

``avg_pool2d`` of uint8 or ``huber_loss`` of int32 have Metal kernels, and no code on the CPU. There the meta kernel may
refuse too. The CPU says which of two things that means: ``"huber_cpu" not implemented for 'Int'`` is the message of the
macro that picks the code for a dtype (``aten/src/ATen/Dispatch.h``), so this kernel lacks the dtype, and other
backends may have it. Any other message is the operator's own, and holds on every device.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from mpsprobe_coverage.calls.spec import tensors_in
from mpsprobe_coverage.device.tensor import mapped

_NO_CODE = re.compile(r"\" not implemented for '")
_COMPUTED_IN = torch.float32
_HAVE_CODE = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def lacks_code(error: BaseException) -> bool:
    """Whether a CPU kernel raised only because it was not compiled for the dtype."""
    return isinstance(error, RuntimeError) and _NO_CODE.search(str(error)) is not None


@dataclass(frozen=True, slots=True)
class Ran:
    """What came out, in float32 where the operator's own dtype should be.

    Attributes:
        dtype: the dtype that float32 stood for.
        replaced: id of an argument → the float32 tensor in its place.
    """

    result: Any
    dtype: torch.dtype
    replaced: dict[int, torch.Tensor]

    def original(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype that the kernel would give where float32 gives ``dtype``."""
        return self.dtype if dtype is _COMPUTED_IN else dtype


def in_float32(run: Callable[..., Any], args: Any, kwargs: Any) -> Ran:
    """``run`` with float32 in place of the dtype of the first tensor argument.

    Other arguments of that dtype change with it. Where the operator does not take them so, because it wants them
    to be whole numbers (targets, indices), those after the first stay.

    Raises:
        Whatever ``run`` raises in float32 too; NotImplementedError where there is nothing to replace.
    """
    tensors = tensors_in((args, kwargs))
    if not tensors or tensors[0].dtype in _HAVE_CODE:
        raise NotImplementedError("no argument has a dtype that float32 could stand for")
    dtype = tensors[0].dtype
    alike = [tensor for tensor in tensors if tensor.dtype is dtype]
    try:
        return _run(run, args, kwargs, dtype, alike)
    except Exception:
        if len(alike) == 1 or dtype.is_floating_point:
            raise
        return _run(run, args, kwargs, dtype, alike[:1])


def _run(run: Callable[..., Any], args: Any, kwargs: Any, dtype: torch.dtype, changed: list[torch.Tensor]) -> Ran:
    replaced = {id(t): torch.empty_like(t, dtype=_COMPUTED_IN).copy_(t) for t in changed}

    def upcast(value: Any) -> Any:
        return replaced.get(id(value), value) if isinstance(value, torch.Tensor) else value

    new_args, new_kwargs = mapped(upcast, (args, kwargs))
    return Ran(run(*new_args, **new_kwargs), dtype, replaced)
