"""References for operators that only MPS or another backend has, or that meta refuses where MPS does not.

They are run on meta for shapes, on the CPU for values. Each takes the operator's own arguments (as
``native_functions.yaml`` has them) and returns what it returns, made of generic operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

_aten = torch.ops.aten


def of_images(x: Any, weight: Any) -> bool:
    """Whether MPS convolves to channels last: ``mps_conv_use_channels_last`` in native/ConvUtils.h."""
    return weight.dim() == 4 and torch.channels_last in map(suggest_memory_format, (x, weight))


def _mps_convolution(x: Any, weight: Any, bias: Any, padding: Any, stride: Any, dilation: Any, groups: int) -> Any:
    result = _aten.convolution(x, weight, bias, stride, padding, dilation, False, [0] * len(padding), groups)
    return result.contiguous(memory_format=torch.channels_last) if of_images(x, weight) else result


def _mps_convolution_transpose(
    x: Any, weight: Any, padding: Any, output_padding: Any, stride: Any, dilation: Any, groups: int
) -> Any:
    return _aten.convolution(x, weight, None, stride, padding, dilation, True, output_padding, groups)


def convolution_backward(x: Any, grad: Any, weight: Any, padding: Any, *places: Any, bias: bool = False) -> Any:
    """Gradients of input, weight and, if it is wanted, bias, which MPS adds outside of the operator.

    ``places`` are those of ``mps_convolution_backward`` after the padding; a transposed one begins with another.
    """
    *transposed, stride, dilation, groups, mask = places
    at = stride, padding, dilation, bool(transposed), transposed[0] if transposed else [0] * len(padding), groups
    return _aten.convolution_backward(grad, x, weight, [grad.shape[1]] if bias else None, *at, [*mask[:2], bias])


def convolution_backward_overrideable(grad: Any, x: Any, weight: Any, *rest: Any) -> Any:
    """Gradients of input, weight and bias on a backend that C++ does not name; the last argument is a mask of them."""
    biases = [grad.shape[1]] if rest[-1][2] else None
    return _aten.convolution_backward(grad, x, weight, biases, *rest)


def linear_backward(x: Any, grad: Any, weight: Any, mask: Any) -> Any:
    """Gradients of input (…, in), weight (out, in) and bias (out); a weight (in) has an output (…)."""
    if weight.dim() == 1:
        by_input, by_weight, by_bias = linear_backward(x, grad.unsqueeze(-1), weight.unsqueeze(0), mask)
        return by_input, by_weight if by_weight is None else by_weight[0], by_bias
    flat = grad.reshape(-1, grad.shape[-1])
    return (
        flat.mm(weight).view(x.shape) if mask[0] else None,
        flat.t().mm(x.reshape(-1, x.shape[-1])) if mask[1] else None,
        flat.sum(0) if mask[2] else None,
    )


def _lstm_mps(
    x: Any, hx: Any, params: Any, biases: bool, layers: int, dropout: float, train: bool, both: bool, batch_first: bool
) -> Any:
    """Output, hidden and cell state as ``torch.nn.LSTM``; the last three are the kernel's own workspace."""
    out, hidden, cell = _generic_lstm(x, hx, params, biases, layers, dropout, train, both, batch_first)
    steps, batch = (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1])
    size, directions = cell.shape[-1], 2 if both else 1
    workspace = x.new_empty((layers * directions, steps, batch, size))
    outputs = x.new_empty((layers, steps, batch, size * directions))
    return out, hidden, cell, workspace.repeat(1, 1, 1, 4), workspace, outputs


def _generic_lstm(x: Any, hx: Any, params: Any, biases: bool, layers: int, *rest: Any) -> Any:
    dropout, train, both, batch_first = rest
    if x.device.type == "cpu":
        return _aten.lstm.input(x, hx, params, biases, layers, dropout, train, both, batch_first)
    width = hx[0].shape[-1] * (2 if both else 1)
    return x.new_empty((*x.shape[:2], width)), torch.empty_like(hx[0]), torch.empty_like(hx[1])


def lstm_mps_backward(
    grad_y: Any, grad_hy: Any, grad_cy: Any, z: Any, cells: Any, x: Any, outputs: Any, hx: Any, params: Any, *_: Any
) -> Any:
    """Gradients shaped as input, the two states and the parameters; zeros where values are asked for."""
    return torch.zeros_like(x), [torch.zeros_like(h) for h in hx], [torch.zeros_like(p) for p in params]


def attention_for_mps(query: Any, key: Any, value: Any, mask: Any = None, *rest: Any, **options: Any) -> Any:
    """Output (…, L, Ev) and attention weights (…, L, S)."""
    dropout, causal = (*rest, *(0.0, False)[len(rest) :])[:2]
    if query.device.type == "cpu":
        if query.dim() > 2 and query.shape[-3] != key.shape[-3]:  # which releases that do not repeat them refuse
            options["enable_gqa"] = True
        return _aten._scaled_dot_product_attention_math(query, key, value, mask, dropout, causal, None, **options)
    out = query.new_empty((*query.shape[:-1], value.shape[-1]))
    return out, query.new_empty((*query.shape[:-1], key.shape[-2]))


def grouped_mm(a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """Shapes as ``create_grouped_gemm_output_tensor`` (GroupedMMUtils.h) has them; meta takes bfloat16 alone."""
    if a.device.type == "cpu":
        return _aten._grouped_mm(a, b, offs, bias, out_dtype)
    groups = offs.shape if a.dim() == b.dim() == 2 else a.shape[:1] if a.dim() == b.dim() else ()
    return a.new_empty((*groups, a.shape[-2], b.shape[-1]), dtype=out_dtype)


def max_pool2d_backward(
    grad: Any, x: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    if x.device.type == "meta":
        return torch.empty_like(x)
    _, indices = _aten.max_pool2d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode)
    return _aten.max_pool2d_with_indices_backward(grad, x, kernel_size, stride, padding, dilation, ceil_mode, indices)


REFERENCES: dict[str, Callable[..., Any]] = {
    "aten::_mps_convolution": _mps_convolution,
    "aten::_mps_convolution_transpose": _mps_convolution_transpose,
    "aten::mps_convolution_backward": convolution_backward,
    "aten::mps_convolution_transpose_backward": lambda *arguments: convolution_backward(*arguments)[:2],
    "aten::convolution_overrideable": _aten.convolution,
    "aten::convolution_backward_overrideable": convolution_backward_overrideable,
    "aten::linear_backward": linear_backward,
    "aten::_lstm_mps": _lstm_mps,
    "aten::lstm_mps_backward": lstm_mps_backward,
    "aten::_scaled_dot_product_attention_math_for_mps": attention_for_mps,
    "aten::max_pool2d_backward": max_pool2d_backward,
    "aten::_grouped_mm": grouped_mm,
}
