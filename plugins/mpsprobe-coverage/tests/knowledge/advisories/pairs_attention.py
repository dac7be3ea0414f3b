"""Pairs of attention."""

from __future__ import annotations

from typing import Any

import torch
from pairs import Function, Pair
from torch.nn import functional


def _masked(rows: int) -> Function:
    """Two queries, of which the first ``rows`` may see keys."""

    def run(x: torch.Tensor) -> Any:
        mask = torch.tensor([[row < rows] * 2 for row in range(2)], device=x.device)
        return functional.scaled_dot_product_attention(*[x.new_zeros(1, 1, 2, 4)] * 3, attn_mask=mask)

    return run


def _directly(dtype: torch.dtype) -> Function:
    def run(x: torch.Tensor) -> Any:
        keys, mask = x.new_zeros(1, 1, 512, 64), x.new_zeros(8, 512, dtype=dtype)
        return torch.ops.aten._scaled_dot_product_attention_math_for_mps(x.new_zeros(1, 1, 8, 64), keys, keys, mask)

    return run


PAIRS = {
    "attention-masked-row": Pair("2.9.0", _masked(1), _masked(2)),
    "attention-bool-mask-one-pass": Pair("2.11.0", _directly(torch.bool), _directly(torch.float32)),
}
