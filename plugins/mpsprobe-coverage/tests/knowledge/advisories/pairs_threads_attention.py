"""Pairs of small models for the advisories of attention: see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair, _of
from torch.nn import functional


def _masked(samples: int) -> Function:
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


PAIRS = {
    "attention-mask-of-each-sample": Pair("2.12.0", _masked(2), _masked(1)),
    "attention-nan-lost": Pair("2.13.0", _queries(float("nan")), _queries(0.0)),
}
