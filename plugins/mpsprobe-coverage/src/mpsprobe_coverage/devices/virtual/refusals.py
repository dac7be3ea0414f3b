"""A run that goes on where an earlier one ended with PyTorch's own refusal.

What every device refuses raises, because a program may catch it, and what it does then is what a Mac would do. Where
nobody catches it, the scan runs the workload again and passes over that message: the call gets its verdict, and a
result of the size that another dtype gives. Operators do so by themselves (``interception.py``); here are functions
that raise before they reach one, in C++ that is made of operators or in torch's Python.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from mpsprobe.suggestions import first_line
from mpsprobe_coverage.devices.virtual.interception import Interception
from mpsprobe_coverage.devices.virtual.tensor import VirtualTensor, mapped, stands_for, undispatched, virtual_tensor
from mpsprobe_coverage.devices.virtual.without_data import MATERIALISE_LIMIT, in_another_dtype, lacks_code
from mpsprobe_coverage.knowledge.calls.spec import CPU, spec_of, specs_in, tensors_in
from mpsprobe_coverage.knowledge.judging.judgement import EVERYWHERE, refused

NOT_FOLLOWED = "it stops on the virtual device, though not on the CPU: {}"


class PassingOver(TorchFunctionMode):
    """While on, a function of torch that raises one of the interception's ``passed_over`` messages goes on."""

    def __init__(self, interception: Interception) -> None:
        super().__init__()
        self._interception = interception

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        try:
            return func(*args, **kwargs)
        except Exception as error:
            tensors = [t for t in tensors_in((args, kwargs)) if type(t) is VirtualTensor]
            if first_line(error) not in self._interception.passed_over or not tensors:
                raise
            if sum(spec_of(tensor).stored for tensor in tensors) > MATERIALISE_LIMIT:
                raise
            made = self._made(func, args, kwargs, first_line(error))
            if made is None:
                raise
            return made[0]

    def _made(self, func: Any, args: Any, kwargs: Any, message: str) -> tuple[Any] | None:
        """The result, from the CPU; None where no dtype helps: then the message is about the call."""
        on_zeros = mapped(lambda v: _filled(v, 0), (args, kwargs))
        ran, holds_everywhere = None, False
        try:
            result = func(*on_zeros[0], **on_zeros[1])
        except Exception as error:  # noqa: BLE001 - whatever it is, it decides
            # Code that asks for the dtype above all operators is the same for every device.
            holds_everywhere = not lacks_code(error) or first_line(error) == message
            on_units = mapped(_unit, (args, kwargs))  # zeros are singular
            ran = in_another_dtype(func, *on_zeros) or in_another_dtype(func, *on_units)
            if ran is None:
                return None
            result = ran.result
        grad = torch.is_grad_enabled() and any(t.requires_grad for t in tensors_in((args, kwargs)))

        def virtual(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.is_nested:
                return value
            if ran is not None and value.dtype is not ran.original(value.dtype):
                value = value.to(ran.original(value.dtype))
            with undispatched():
                return virtual_tensor(spec_of(value), None, grad and value.is_floating_point())

        made = mapped(virtual, result)
        if message not in self._interception.refusals:
            self._record(func, message, specs_in((args, kwargs)), specs_in(made), holds_everywhere)
        return (made,)

    def _record(self, func: Any, message: str, inputs: Any, outputs: Any, holds_everywhere: bool) -> None:
        recorder, origin = self._interception.recorder, self._interception.attribution.current()
        if recorder.phase is None:
            return
        name = getattr(func, "__name__", str(func))
        operator = f"aten::{name}" if hasattr(torch.ops.aten, name) else f"torch::{name}"
        if holds_everywhere:
            recorder.call(operator, refused(message, evidence=EVERYWHERE), origin, inputs, outputs)
        else:
            recorder.unjudged(operator, NOT_FOLLOWED.format(message), origin)


def _filled(value: Any, number: int) -> Any:
    if isinstance(value, torch.Tensor):
        return spec_of(value).filled(number)
    return CPU if isinstance(value, torch.device) and value.type == stands_for.type else value


def _unit(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.dim() < 2:
        return _filled(value, 1)
    return torch.eye(*value.shape[-2:], device=CPU).to(value.dtype).expand(value.shape)
