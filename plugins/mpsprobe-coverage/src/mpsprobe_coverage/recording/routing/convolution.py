"""Convolutions: ``select_conv_backend`` in ``aten/src/ATen/native/Convolution.cpp`` asks ``input.is_mps()``.

On MPS every convolution of one, two or three dimensions, depthwise and dilated ones included, ends in
one of four operators, or, where one entry of the batch is too large, in one that only raises. Established by
disassembling ``_convolution``, ``convolution_backward``, ``_select_conv_backend`` and ``ConvParams::use_mps``, and
from the refusals in the kernels' own strings, in the macOS libraries of 1.12.0 to 2.15.0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Plan, Release, Route

_aten = torch.ops.aten
_INT_MAX = (1 << 31) - 1
_PLACES = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")


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
    if not _takes_mps(dispatch.release, tensor, weight, bound):
        target = dispatch.plan_of(_aten.convolution_overrideable.default)
        return dispatch.leaf(target, (tensor, weight, bias, *(bound[name] for name in _PLACES)), {})
    if not tensor.is_contiguous() and (transposed or not dispatch.release.at_least("2.2")):
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
    if not _takes_mps(dispatch.release, tensor, weight, bound):
        target = dispatch.plan_of(_aten.convolution_backward_overrideable.default)
        return dispatch.leaf(target, (grad, tensor, weight, *(bound[name] for name in _PLACES), mask), {})
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


def _takes_mps(release: Release, tensor: torch.Tensor, weight: torch.Tensor, bound: dict[str, Any]) -> bool:
    """``ConvParams::use_mps``: one entry of the batch, and of the result, is addressed with 32 bits.

    From 2.14.0 on it takes what is larger too if it is of three dimensions and not transposed.
    """
    if tensor.numel() == 0 or not _needs_64_bits(tensor, weight, bound):
        return True
    return release.at_least("2.14") and tensor.dim() == 5 and not bound["transposed"]


def _needs_64_bits(tensor: torch.Tensor, weight: torch.Tensor, bound: dict[str, Any]) -> bool:
    """``ConvParams::needs_64bit_indexing_no_split``: of the entries of a batch, which it can split."""
    if tensor.numel() // tensor.shape[0] > _INT_MAX:
        return True
    kernel = weight.shape[2:]
    stride, padding, dilation, more = (
        _spread(bound[name], len(kernel)) for name in ("stride", "padding", "dilation", "output_padding")
    )
    places = zip(tensor.shape[2:], kernel, stride, padding, dilation, more, strict=True)
    if bound["transposed"]:
        channels = weight.shape[1] * bound["groups"]
        sizes = [(size - 1) * s - 2 * p + (k - 1) * d + o + 1 for size, k, s, p, d, o in places]
    else:
        channels = weight.shape[0]
        sizes = [(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d, _ in places]
    return bool(channels * math.prod(sizes) > _INT_MAX)


def _spread(values: Sequence[int], dimensions: int) -> Sequence[int]:
    """One number stands for all dimensions."""
    return values if len(values) == dimensions else list(values) * dimensions
