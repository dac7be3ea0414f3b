"""Pairs of ``attention.toml``; see ``pairs.py``."""

from __future__ import annotations

from typing import Any

import torch
from pairs import Function, Pair, _of
from torch.nn import functional


def _masked(trained: bool) -> Function:
    """Two queries, of which one may see no key."""

    def run(x: torch.Tensor) -> Any:
        mask = torch.tensor([[True, False], [False, False]], device=x.device)
        query = x.new_zeros(1, 1, 2, 4, requires_grad=trained)
        with torch.set_grad_enabled(trained):
            return functional.scaled_dot_product_attention(query, query, query, attn_mask=mask)

    return run


def _directly(dtype: torch.dtype) -> Function:
    def run(x: torch.Tensor) -> Any:
        keys, mask = x.new_zeros(1, 1, 512, 64), x.new_zeros(8, 512, dtype=dtype)
        return torch.ops.aten._scaled_dot_product_attention_math_for_mps(x.new_zeros(1, 1, 8, 64), keys, keys, mask)

    return run


def _masked_keys(samples: int) -> Function:
    shapes = [(2, 4, 8, 64)] * 3
    return _of(
        lambda query, key, value, mask: functional.scaled_dot_product_attention(query, key, value, attn_mask=mask),
        *shapes, (samples, 1, 8, 8),
    )  # fmt: skip


def _queries(value: float) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        keys = x.new_zeros(1, 1, 16, 64)
        return functional.scaled_dot_product_attention(x.new_full((1, 1, 4, 64), value), keys, keys)

    return run


def _dropped(dropout: float) -> Function:
    """Attention that drops weights out, without gradients."""
    return _of(functional.scaled_dot_product_attention, *[(1, 2, 4, 8)] * 3, dropout_p=dropout)


def _scored(keys: int) -> Function:
    shapes = [(1, 1, length, 64) for length in (65536, keys, keys)]
    return _of(functional.scaled_dot_product_attention, *shapes)


PAIRS = {
    "attention-masked-row": Pair("2.9.0", _masked(trained=False), _masked(trained=True)),
    "attention-bool-mask-one-pass": Pair("2.11.0", _directly(torch.bool), _directly(torch.float32)),
    "attention-mask-of-each-sample": Pair("2.12.0", _masked_keys(2), _masked_keys(1)),
    "attention-nan-lost": Pair("2.13.0", _queries(float("nan")), _queries(0.0)),
    "attention-dropout-ignored": Pair("2.12.1", *(_dropped(dropout) for dropout in (0.5, 0.0))),
    "attention-scores-above-32-bits": Pair("2.11.0", *(_scored(keys) for keys in (65537, 65536))),
}
