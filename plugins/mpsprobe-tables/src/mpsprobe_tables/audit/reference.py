"""The same samples on the plain CPU, which PyTorch's tests compare with: where that raises, they cannot pass.

From torch 2.11 on (pull request 172591) a reference is computed in float32 where the CPU has no kernel for 16 bits or
truth values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mpsprobe_tables.audit.entries import dtype_named
from mpsprobe_tables.audit.procedure import backward, forward, message
from mpsprobe_tables.audit.quiet import other_seeds
from mpsprobe_tables.audit.samples import DrawnOnCpu

FORWARD, GRADIENT = "forward", "gradient"


@dataclass(frozen=True, slots=True)
class Reference:
    """What the CPU did with one sample.

    Attributes:
        forward, gradient: the error where it raised; a gradient is there only where one was asked for.
        upcast: it raised for want of a kernel for the dtype, and works in float32.
        exact: what it gives in float32 survives the cast to the dtype.
    """

    forward: str | None = None
    gradient: str | None = None
    upcast: bool = False
    exact: bool = True


def on_cpu(entry: Any, dtype: str, samples: Sequence[Any], gradient: bool) -> list[Reference]:
    """One ``Reference`` for each sample, which stay as they are."""
    with DrawnOnCpu():
        return [_one(entry, dtype, sample, gradient) for sample in samples]


def _one(entry: Any, dtype: str, sample: Any, gradient: bool) -> Reference:
    upcast = False
    try:
        copied = sample.transform(copy_of)
        try:
            output = forward(entry, copied)
        except NotImplementedError as error:
            copied = sample.transform(lambda value: copy_of(value, dtype_named(dtype)))
            try:
                output, upcast = forward(entry, copied), True
            except Exception:  # noqa: BLE001 - the first error is the one that says something
                return Reference(message(error), message(error) if gradient else None)
            if not isinstance(sample.input, torch.Tensor) or not isinstance(output, torch.Tensor):
                # PyTorch's test tries again only for a tensor that gives a tensor.
                return Reference(message(error), message(error) if gradient else None)
            if not gradient:
                return Reference(message(error), upcast=True, exact=_is_exact(output, dtype))
            first = message(error)
    except Exception as error:  # noqa: BLE001 - whatever an operator raises is the answer
        return Reference(message(error), message(error) if gradient else None)
    raised = None
    if gradient:
        try:
            compute = backward(entry, copied, output, torch.ones_like)
            if compute is not None:
                compute()
        except Exception as error:  # noqa: BLE001 - as above
            raised = message(error)
    return Reference(first if upcast else None, raised, upcast)


def _is_exact(output: torch.Tensor, dtype: str) -> bool:
    """Whether a result computed in float32 survives the cast of the test: truth values lose what is not whole."""
    return dtype_named(dtype).is_floating_point or bool((output == output.round()).all())


def draws_other_gradients(entry: Any, samples: Sequence[Any]) -> bool:
    """Whether two runs that differ in the seed alone give other gradients for some sample, as dropout does.

    No device can then agree with another in ``test_output_grad_match``. Samples that raise say nothing.
    """
    with DrawnOnCpu():
        return any(_differs(entry, sample) for sample in samples)


def _differs(entry: Any, sample: Any) -> bool:
    found = []
    for shift in (0, 1):
        copied = sample.transform(copy_of)
        try:
            with other_seeds(shift):
                output = forward(entry, copied)
                compute = backward(entry, copied, output, torch.ones_like)
                found.append(() if compute is None else compute())
        except Exception:  # noqa: BLE001 - as above
            return False
    return any(
        one is not None and other is not None and not torch.equal(one.nan_to_num(), other.nan_to_num())
        for one, other in zip(*found, strict=True)
    )


def copy_of(value: Any, upcast_from: torch.dtype | None = None) -> Any:
    """A leaf like ``value`` if that is a tensor, in float32 instead of ``upcast_from``; else the value itself."""
    if not isinstance(value, torch.Tensor):
        return torch.float32 if upcast_from is not None and value is upcast_from else value
    copied = value.detach().clone(memory_format=torch.preserve_format)
    if upcast_from is not None and copied.dtype is upcast_from:
        copied = copied.float()
    return copied.requires_grad_(value.requires_grad)
