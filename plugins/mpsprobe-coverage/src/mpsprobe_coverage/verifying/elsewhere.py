"""What the CPU computes in place of operators that only a device has: attention, batch norm and LSTM of CUDA and MPS.

Each takes the operator's own arguments and returns its results; ``None`` for those that are not to be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mpsprobe_coverage.recording.references import REFERENCES

_aten = torch.ops.aten


def _attention(q: Any, k: Any, v: Any, bias: Any = None, causal: bool = False, scale: Any = None) -> Any:
    """Output (…, L, Ev), by its definition."""
    if q.dim() > 2 and q.shape[-3] != k.shape[-3]:
        k, v = (one.repeat_interleave(q.shape[-3] // one.shape[-3], -3) for one in (k, v))
    scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
        scores = scores.masked_fill(~ones.tril(), float("-inf"))
    if bias is not None:
        scores = scores.masked_fill(~bias, float("-inf")) if bias.dtype is torch.bool else scores + bias
    return scores.softmax(-1) @ v


def _derivatives(grad: Any, q: Any, k: Any, v: Any, bias: Any, causal: bool, scale: Any) -> list[Any]:
    q, k, v = inputs = [one.detach().requires_grad_() for one in (q, k, v)]
    with torch.enable_grad():
        out = _attention(q, k, v, bias, causal, scale)
    return list(torch.autograd.grad(out, inputs, grad))


def _flash(q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False, *_: Any, scale: Any = None) -> Any:
    return (_attention(q, k, v, None, causal, scale),)


def _flash_backward(
    grad: Any, q: Any, k: Any, v: Any, out: Any, sums: Any, cum_q: Any, cum_k: Any, max_q: Any, max_k: Any,
    dropout: float, causal: bool, *_: Any, scale: Any = None,
) -> Any:  # fmt: skip
    return tuple(_derivatives(grad, q, k, v, None, causal, scale))


def _efficient(
    q: Any, k: Any, v: Any, bias: Any, sums: bool, dropout: float = 0.0, causal: bool = False, *, scale: Any = None
) -> Any:
    return (_attention(q, k, v, bias, causal, scale),)


def _efficient_backward(
    grad: Any, q: Any, k: Any, v: Any, bias: Any, out: Any, sums: Any, seed: Any, offset: Any, dropout: float,
    mask: Any, causal: bool = False, *, scale: Any = None,
) -> Any:  # fmt: skip
    return (*_derivatives(grad, q, k, v, bias, causal, scale), None)


def _cudnn(
    q: Any, k: Any, v: Any, bias: Any, sums: bool, dropout: float = 0.0, causal: bool = False, debug: bool = False,
    *, scale: Any = None,
) -> Any:  # fmt: skip
    return (_attention(q, k, v, bias, causal, scale),)


def _cudnn_backward(
    grad: Any, q: Any, k: Any, v: Any, out: Any, sums: Any, seed: Any, offset: Any, bias: Any, cum_q: Any, cum_k: Any,
    max_q: Any, max_k: Any, dropout: float, causal: bool, *, scale: Any = None,
) -> Any:  # fmt: skip
    return tuple(_derivatives(grad, q, k, v, bias, causal, scale))


def _batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, rate: float, eps: float
) -> Any:
    return (*_aten.native_batch_norm(x, weight, bias, mean, variance, training, rate, eps)[:1], None, None, None)


def _batch_norm_backward(
    x: Any, grad: Any, weight: Any, mean: Any, variance: Any, save_mean: Any, save_var: Any, eps: float, reserve: Any
) -> Any:
    mask = [True, True, True]
    return _aten.native_batch_norm_backward(grad, x, weight, mean, variance, save_mean, save_var, True, eps, mask)


def _for_mps(
    q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0, causal: bool = False, *rest: Any, **o: Any
) -> Any:
    return (_attention(q, k, v, mask, causal, o.get("scale")),)


def _softmax(x: Any, dim: int, to_float: bool) -> Any:
    """Half precision in, float32 out: a GPU's kernel alone does both at once."""
    return _aten._softmax(x.float() if to_float and x.dtype is not torch.float64 else x, dim, False)


def _log_softmax(x: Any, dim: int, to_float: bool) -> Any:
    return _aten._log_softmax(x.float() if to_float and x.dtype is not torch.float64 else x, dim, False)


ELSEWHERE: dict[str, Callable[..., Any]] = {
    **REFERENCES,
    "aten::_scaled_dot_product_attention_math_for_mps": _for_mps,
    "aten::_scaled_dot_product_flash_attention": _flash,
    "aten::_scaled_dot_product_flash_attention_backward": _flash_backward,
    "aten::_scaled_dot_product_efficient_attention": _efficient,
    "aten::_scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "aten::_scaled_dot_product_cudnn_attention": _cudnn,
    "aten::_scaled_dot_product_cudnn_attention_backward": _cudnn_backward,
    "aten::_softmax": _softmax,
    "aten::_log_softmax": _log_softmax,
    "aten::cudnn_batch_norm": _batch_norm,
    "aten::cudnn_batch_norm_backward": _batch_norm_backward,
}
"""By the operator's name; other operators are computed by the CPU's own kernel."""
NOT_COMPARED = {
    "aten::lstm_mps_backward": "its derivative is not computed elsewhere",
    "aten::_cudnn_rnn": "its weights lie as cuDNN wants them",
    "aten::_cudnn_rnn_backward": "its weights lie as cuDNN wants them",
    "aten::_cudnn_rnn_flatten_weight": "its weights lie as cuDNN wants them",
    "aten::_thnn_fused_lstm_cell": "its workspace is its own",
    "aten::_thnn_fused_lstm_cell_backward_impl": "its workspace is its own",
    "aten::_thnn_fused_gru_cell": "its workspace is its own",
    "aten::_thnn_fused_gru_cell_backward": "its workspace is its own",
}
"""Operators whose results mean something to their own kernels alone."""
