"""What the CPU computes in place of operators that only a device has: attention, batch norm and LSTM of CUDA and MPS.

Each takes the operator's own arguments and returns its results; ``None`` for those that are not to be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from mpsprobe_coverage.recording.references import REFERENCES

_aten = torch.ops.aten


def _attention(q: Any, k: Any, v: Any, bias: Any = None, causal: bool = False, scale: Any = None) -> Any:
    """Output (…, L, Ev), by its definition."""
    if q.dim() > 2 and q.shape[-3] != k.shape[-3]:
        k, v = (tensor.repeat_interleave(q.shape[-3] // tensor.shape[-3], -3) for tensor in (k, v))
    scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
        scores = scores.masked_fill(~ones.tril(), float("-inf"))
    if bias is not None:
        scores = scores.masked_fill(~bias, float("-inf")) if bias.dtype is torch.bool else scores + bias
    return scores.softmax(-1) @ v


def _given(name: str, args: Any, kwargs: Any) -> tuple[dict[str, Any], list[Any]]:
    """The arguments of an operator by their names in its schema, and those of ``_attention``."""
    names = [argument.name for argument in getattr(_aten, name).default._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    bias = given.get("attn_bias", given.get("attn_mask"))
    inputs = [given["query"], given["key"], given["value"]]
    return given, [*inputs, bias, given.get("is_causal", False), given.get("scale")]


def _forward(name: str, *args: Any, **kwargs: Any) -> Any:
    return (_attention(*_given(name, args, kwargs)[1]),)


def _backward(name: str, *args: Any, **kwargs: Any) -> Any:
    """The derivatives by query, key and value; that by a bias is not compared."""
    given, asked = _given(name, args, kwargs)
    inputs = [tensor.detach().requires_grad_() for tensor in asked[:3]]
    with torch.enable_grad():
        out = _attention(*inputs, *asked[3:])
    return torch.autograd.grad(out, inputs, given.get("grad_out", given.get("grad_out_")))


def _batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, rate: float, eps: float
) -> Any:
    return (*_aten.native_batch_norm(x, weight, bias, mean, variance, training, rate, eps)[:1], None, None, None)


def _batch_norm_backward(
    x: Any, grad: Any, weight: Any, mean: Any, variance: Any, save_mean: Any, save_var: Any, eps: float, reserve: Any
) -> Any:
    mask = [True, True, True]
    return _aten.native_batch_norm_backward(grad, x, weight, mean, variance, save_mean, save_var, True, eps, mask)


def _to_float(func: Any, x: Any, dim: int, to_float: bool) -> Any:
    """Half precision in, float32 out: a GPU's kernel alone does both at once."""
    return func(x.float() if to_float and x.dtype is not torch.float64 else x, dim, False)


_ATTENTION = [f"_scaled_dot_product_{kind}_attention" for kind in ("flash", "efficient", "cudnn")]
ELSEWHERE: dict[str, Callable[..., Any]] = {
    **REFERENCES,
    **{
        f"aten::{name}": partial(_forward, name) for name in ("_scaled_dot_product_attention_math_for_mps", *_ATTENTION)
    },
    **{f"aten::{name}_backward": partial(_backward, f"{name}_backward") for name in _ATTENTION},
    "aten::_softmax": partial(_to_float, _aten._softmax),
    "aten::_log_softmax": partial(_to_float, _aten._log_softmax),
    "aten::cudnn_batch_norm": _batch_norm,
    "aten::cudnn_batch_norm_backward": _batch_norm_backward,
}
"""By the operator's name; other operators are computed by the CPU's own kernel."""
_CUDNN, _FUSED = "its weights lie as cuDNN wants them", "its workspace is its own"
NOT_COMPARED = {
    "aten::lstm_mps_backward": "its derivative is not computed elsewhere",
    **dict.fromkeys(("aten::_cudnn_rnn", "aten::_cudnn_rnn_backward", "aten::_cudnn_rnn_flatten_weight"), _CUDNN),
    **dict.fromkeys(("aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_lstm_cell_backward_impl"), _FUSED),
    **dict.fromkeys(("aten::_thnn_fused_gru_cell", "aten::_thnn_fused_gru_cell_backward"), _FUSED),
}
"""Operators whose results mean something to their own kernels alone."""
