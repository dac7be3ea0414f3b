"""Convolutions: ``select_conv_backend`` in ``aten/src/ATen/native/Convolution.cpp`` asks ``input.is_mps()``.

On MPS every convolution of one, two or three dimensions, depthwise and dilated ones included, ends in
one of four operators. Established by disassembling ``_convolution`` and ``convolution_backward``, and from
the refusals in the kernels' own strings, in the macOS libraries of 1.12.1 to 2.15.0.
"""

from __future__ import annotations

from typing import Any

import torch

from mpsprobe_coverage.device.dispatch import Dispatch, Plan, Route
from mpsprobe_coverage.kernels.table import KernelTable

_aten = torch.ops.aten


def routes(table: KernelTable) -> list[Route]:
    """The same three in every release."""
    del table
    return [
        Route("aten::convolution", _convolution),
        Route("aten::_convolution", _convolution),
        Route("aten::convolution_backward", _convolution_backward),
    ]


def _convolution(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    bound = plan.bound(args, kwargs)
    tensor, weight, bias = bound["input"], bound["weight"], bound["bias"]
    transposed = bound["transposed"]
    if transposed or not dispatch.table.at_least("2.2"):
        with dispatch:
            tensor = tensor.contiguous()
    places = (bound["stride"], bound["dilation"], bound["groups"])
    if not transposed:
        target = dispatch.plan_of(_aten._mps_convolution.default)
        return dispatch.leaf(target, (tensor, weight, bias, bound["padding"], *places), {})
    target = dispatch.plan_of(_aten._mps_convolution_transpose.default)
    arguments = (tensor, weight, bound["padding"], bound["output_padding"], *places)
    result = dispatch.leaf(target, arguments, {})
    if bias is not None:
        with dispatch:
            shape = [1, -1] + [1] * (weight.dim() - 2)
            result = result.add_(bias.reshape(shape))
    return result


def _convolution_backward(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    bound = plan.bound(args, kwargs)
    grad, tensor, weight, mask = bound["grad_output"], bound["input"], bound["weight"], list(bound["output_mask"])
    transposed = bound["transposed"]
    places = (bound["stride"], bound["dilation"], bound["groups"])
    if transposed:
        target = dispatch.plan_of(_aten.mps_convolution_transpose_backward.default)
        padding = (bound["padding"], bound["output_padding"])
        grad_input, grad_weight = dispatch.leaf(target, (tensor, grad, weight, *padding, *places, mask[:2]), {})
    else:
        target = dispatch.plan_of(_aten.mps_convolution_backward.default)
        arguments = (tensor, grad, weight, bound["padding"], *places, mask)
        grad_input, grad_weight, _ = dispatch.leaf(target, arguments, {})
    grad_bias = None
    if mask[2]:
        spatial = range(2, grad.dim())
        with dispatch:
            grad_bias = grad.sum([0, *spatial])
    return grad_input, grad_weight, grad_bias
