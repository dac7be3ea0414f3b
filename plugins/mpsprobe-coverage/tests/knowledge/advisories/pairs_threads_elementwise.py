"""Pairs of small models for the advisories of elementwise operators: see ``pairs.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pairs import Function, Pair, _strided
from torch.nn import functional


def _filled(operator: str, value: float, *shape: int, dtype: torch.dtype = torch.float32, **options: object):  # type: ignore[no-untyped-def]
    """The operator of a tensor that is full of ``value``."""
    return lambda x: getattr(torch, operator)(x.new_full(shape, value, dtype=dtype), **options)


INFINITE, LARGE = float("inf"), 2**24 + 1


def _backward(operator: Callable[..., Any], permuted: bool) -> Function:
    """The operator of a permuted image that needs a gradient, whose mean has a contiguous one."""

    def run(x: torch.Tensor) -> torch.Tensor:
        image = x.new_zeros(1, 7, 4, 3) + x.sum()
        return operator(image.permute(0, 3, 1, 2) if permuted else image)

    return run


def _floored(value: float) -> Function:
    return lambda x: torch.div(x.new_full((3,), value), x.new_ones(3), rounding_mode="floor")


PAIRS = {
    "cpu-scalar-view": Pair("2.12.0", lambda x: x * torch.ones(4)[2], lambda x: x * torch.ones(4)[0]),
    "lgamma-strided": Pair("2.10.0", *_strided(torch.lgamma)),
    "abs-integers-large": Pair(
        "2.13.0", *(_filled("abs", value, 3, dtype=torch.int64) for value in (LARGE, LARGE - 1))
    ),
    "triu-infinite": Pair("2.2.2", *(_filled("triu", value, 4, 4, diagonal=1) for value in (-INFINITE, -1.0))),
    "tril-infinite": Pair("2.6.0", *(_filled("tril", INFINITE, 4, 4, diagonal=diagonal) for diagonal in (-1, 0))),
    "tanh-backward-permuted": Pair("2.10.0", *(_backward(torch.tanh, one) for one in (True, False)), "training"),
    "silu-backward-permuted": Pair("2.10.0", *(_backward(functional.silu, one) for one in (True, False)), "training"),
    "floor-divide-infinite": Pair("2.13.0", _floored(INFINITE), _floored(2.0)),
    "clamp-permuted": Pair("2.0.0", *_strided(lambda x: x.clamp(0, 1))),
    "log-permuted": Pair("1.13.0", *_strided(torch.log)),
}
