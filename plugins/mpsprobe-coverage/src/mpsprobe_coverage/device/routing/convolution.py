"""Convolutions: ``select_conv_backend`` in ``aten/src/ATen/native/Convolution.cpp`` asks ``input.is_mps()``.

On MPS every convolution of one, two or three dimensions, depthwise and dilated ones included, ends in
one of four operators. Established by disassembling ``_convolution`` and ``convolution_backward``, and from
the refusals in the kernels' own strings, in the macOS libraries of 1.12.1 to 2.15.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.routing.route import Route, at_least
from mpsprobe_coverage.device.tensor import spec_of
from mpsprobe_coverage.kernels.table import KernelTable

if TYPE_CHECKING:
    from mpsprobe_coverage.device.interception import Interception
    from mpsprobe_coverage.device.plan import Plan

_aten = torch.ops.aten
CONV3D = Refusal("Conv3D is not supported on MPS", "2.3.0")
CONV_TRANSPOSE3D = Refusal("ConvTranspose 3D is not supported on MPS", "2.8.0")
CONV_TRANSPOSE3D_HALF = Refusal("ConvTranspose 3D with BF16 or FP16 types is not supported on MPS")
NOT_FLOATING = Refusal("Convolution is supported only for Floating types")
REFUSALS_CHANGE = {
    "aten::_mps_convolution": ("2.0", "2.3"),
    "aten::mps_convolution_backward": ("2.0", "2.3"),
    "aten::_mps_convolution_transpose": ("2.0", "2.8"),
    "aten::mps_convolution_transpose_backward": ("2.0", "2.8"),
}


def routes(table: KernelTable) -> list[Route]:
    """The same three in every release."""
    del table
    return [
        Route("aten::convolution", _convolution),
        Route("aten::_convolution", _convolution),
        Route("aten::convolution_backward", _convolution_backward),
    ]


def refusal(table: KernelTable, dimensions: int, transposed: bool, dtype: torch.dtype) -> Refusal | None:
    """What the kernels say no to. ``dimensions`` counts spatial ones."""
    if dimensions == 3 and transposed:
        if not at_least(table, "2.8"):
            return CONV_TRANSPOSE3D
        if dtype in (torch.float16, torch.bfloat16):
            return CONV_TRANSPOSE3D_HALF
    if dimensions == 3 and not transposed and not at_least(table, "2.3"):
        return CONV3D
    if not dtype.is_floating_point and at_least(table, "2.0"):
        return NOT_FLOATING
    return None


def _convolution(interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    bound = _bound(plan, args, kwargs)
    tensor, weight, bias = bound["input"], bound["weight"], bound["bias"]
    transposed = bound["transposed"]
    table = interception.tables["aten"]
    spec = spec_of(tensor)
    refused = refusal(table, len(spec_of(weight).shape) - 2, transposed, spec.dtype)
    if transposed or not at_least(table, "2.2"):
        with interception:
            tensor = tensor.contiguous()
    places = (bound["stride"], bound["dilation"], bound["groups"])
    if not transposed:
        target = interception.plan_of(_aten._mps_convolution.default)
        return interception.leaf(target, (tensor, weight, bias, bound["padding"], *places), {}, refused)
    target = interception.plan_of(_aten._mps_convolution_transpose.default)
    arguments = (tensor, weight, bound["padding"], bound["output_padding"], *places)
    result = interception.leaf(target, arguments, {}, refused)
    if bias is not None:
        with interception:
            shape = [1, -1] + [1] * (len(spec_of(weight).shape) - 2)
            result = result.add_(bias.reshape(shape))
    return result


def _convolution_backward(interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    bound = _bound(plan, args, kwargs)
    grad, tensor, weight, mask = bound["grad_output"], bound["input"], bound["weight"], list(bound["output_mask"])
    transposed = bound["transposed"]
    refused = refusal(interception.tables["aten"], len(spec_of(weight).shape) - 2, transposed, spec_of(tensor).dtype)
    places = (bound["stride"], bound["dilation"], bound["groups"])
    if transposed:
        target = interception.plan_of(_aten.mps_convolution_transpose_backward.default)
        arguments: tuple[Any, ...] = (
            tensor,
            grad,
            weight,
            bound["padding"],
            bound["output_padding"],
            *places,
            mask[:2],
        )
        grad_input, grad_weight = interception.leaf(target, arguments, {}, refused)
    else:
        target = interception.plan_of(_aten.mps_convolution_backward.default)
        arguments = (tensor, grad, weight, bound["padding"], *places, mask)
        grad_input, grad_weight, _ = interception.leaf(target, arguments, {}, refused)
    grad_bias = None
    if mask[2]:
        spatial = range(2, len(spec_of(grad).shape))
        with interception:
            grad_bias = grad.sum([0, *spatial])
    return grad_input, grad_weight, grad_bias


def _bound(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name; neither operator has defaults."""
    names = [argument.name for argument in plan.func._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}
