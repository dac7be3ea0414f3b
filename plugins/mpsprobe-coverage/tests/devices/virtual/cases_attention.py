"""Attention: which operators a Mac calls for it, and why.

``scaled_dot_product_attention`` came with torch 2.0.0. What its C++ does on MPS was read in the disassembly of
``at::native::scaled_dot_product_attention`` and ``_scaled_dot_product_attention_math`` in each macOS library.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from expectations import EVERY, Case, of

_FUSED = "_scaled_dot_product_attention_math_for_mps"
_SAFE_SOFTMAX = "_softmax isneginf all.dim where.self_out"
_CORE = [(1, 2, 3, 4)] * 3


def _with(mask: torch.Tensor) -> Any:
    return lambda: [*map(torch.rand, _CORE), mask]


def _attention(q: Any, k: Any, v: Any, mask: Any = None, **options: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, mask, **options)


def _heads() -> torch.nn.Module:
    return torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()


CASES = {
    "attention, inference: 2.0 divides both sides by the root of the scale, 2.1 to 2.4 multiply; from 2.5.0 on, "
    "without gradients and dropout, the operator of MPS.": Case(
        of(_attention, *_CORE),
        {"2.0.0": "div.Tensor*2 bmm*2 _softmax", "2.4.1": "mul.Tensor*2 bmm*2 _softmax", "2.6.0": _FUSED},
    ),
    "attention, training: With gradients always the composite; _safe_softmax from 2.5.0 on, whose formula is "
    "softmax's. Four products of matrices come back from two.": Case(
        of(_attention, *_CORE),
        {
            "2.0.0": "div.Tensor*2 bmm*2 _softmax | div.Tensor*2 bmm*4 _softmax_backward_data",
            "2.4.1": "mul.Tensor*2 bmm*2 _softmax | mul.Tensor*2 bmm*4 _softmax_backward_data",
            "2.6.0": f"mul.Tensor*2 bmm*2 {_SAFE_SOFTMAX} | mul.Tensor*2 bmm*4 _softmax_backward_data",
        },
    ),
    "attention with a boolean mask: convert_boolean_attn_mask: logical_not and masked_fill_ into zeros up to 2.4, "
    "where() with -inf from 2.6 on.": Case(
        of(_attention, _with(torch.ones(3, 3, dtype=torch.bool).tril())),
        {
            "2.0.0": "div.Tensor*2 bmm*2 _softmax logical_not.out masked_fill_.Scalar add.Tensor",
            "2.4.1": "mul.Tensor*2 bmm*2 _softmax logical_not.out masked_fill_.Scalar add.Tensor",
            "2.6.0": f"where.self {_FUSED}",
        },
    ),
    "attention with a boolean mask, training: The same conversion, then the composite: the mask is added to the "
    "product.": Case(
        of(_attention, _with(torch.ones(3, 3, dtype=torch.bool).tril())),
        {
            "2.4.1": "mul.Tensor*2 bmm*2 _softmax logical_not.out masked_fill_.Scalar add.Tensor"
            " | mul.Tensor*2 bmm*4 _softmax_backward_data",
            "2.6.0": f"where.self mul.Tensor*2 bmm*2 add.Tensor {_SAFE_SOFTMAX}"
            " | mul.Tensor*2 bmm*4 _softmax_backward_data",
        },
    ),
    "attention with a mask of numbers: It is added as it is, or given to the operator of MPS.": Case(
        of(_attention, _with(torch.zeros(3, 3))),
        {
            "2.0.0": "div.Tensor*2 bmm*2 _softmax add.Tensor",
            "2.4.1": "mul.Tensor*2 bmm*2 _softmax add.Tensor",
            "2.6.0": _FUSED,
        },
    ),
    "causal attention, inference: is_causal is an argument of the operator of MPS: no mask is made.": Case(
        of(lambda q, k, v: _attention(q, k, v, is_causal=True), *_CORE), {"2.6.0": _FUSED}
    ),
    "attention with dropout, without gradients: dropout_p keeps 2.5 to 2.11 from the operator of MPS; from 2.12.0 on "
    "only gradients do. From 2.13.0 on that operator compares dropout_p with 0 and raises.": Case(
        of(lambda q, k, v: _attention(q, k, v, dropout_p=0.1), *_CORE),
        {
            "2.6.0": f"mul.Tensor*3 bmm*2 {_SAFE_SOFTMAX} bernoulli_.float div_.Tensor",
            "2.13.0": f"unsupported:{_FUSED}",
        },
    ),
    "attention of transposed heads: x.view(b, t, h, d).transpose(1, 2), as every transformer has it: not contiguous, "
    "which from 2.6.0 on does not matter on macOS 15.": Case(
        of(lambda *given: _attention(*(one.transpose(1, 2) for one in given)), *[(1, 3, 2, 4)] * 3), {"2.6.0": _FUSED}
    ),
    "grouped-query attention, inference: 2.5 and 2.6 hand fewer key heads on as they are, which the product refuses, "
    "2.12 and later with a keyword.": Case(
        of(lambda q, k, v: _attention(q, k, v, enable_gqa=True), (1, 4, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)),
        {"2.6.0": f"unsupported:{_FUSED}", "2.7.0": _FUSED},
    ),
    "grouped-query attention, training: The composite repeats the key heads; their gradients are summed over the "
    "repetition.": Case(
        of(lambda q, k, v: _attention(q, k, v, enable_gqa=True), (1, 4, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)),
        {"2.6.0": f"mul.Tensor*2 bmm*2 {_SAFE_SOFTMAX} | mul.Tensor*2 bmm*4 _softmax_backward_data sum.dim_IntList*2"},
    ),
    "multi-head attention with its weights: torch.nn.MultiheadAttention takes its fast path on CPU and CUDA only: one "
    "linear for all three projections, bmm, softmax, bmm, linear, and the weights averaged over the heads.": Case(
        of(lambda module, x: module(x, x, x)[0], (2, 3, 4), module=_heads),
        {
            EVERY: "_mps_linear*2 mul.Tensor bmm*2 _softmax mean.dim",
            "1.13.1": "linear*2 mul.Tensor bmm*2 _softmax mean.dim",
        },
    ),
    "multi-head attention without its weights: need_weights=False goes through scaled_dot_product_attention.": Case(
        of(lambda module, x: module(x, x, x, need_weights=False)[0], (2, 3, 4), module=_heads),
        {"2.4.1": "linear*2 mul.Tensor*2 bmm*2 _softmax", "2.6.0": f"linear*2 {_FUSED}"},
    ),
}
