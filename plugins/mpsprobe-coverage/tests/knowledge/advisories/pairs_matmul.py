"""Pairs of ``matmul.toml``; see ``pairs.py``."""

from __future__ import annotations

import math

import torch
from pairs import Function, Pair


def _scores(held: float) -> Function:
    """The scores of sliced attention, with an input full of ``held`` that is to be ignored."""

    def run(x: torch.Tensor) -> torch.Tensor:
        query = x.new_zeros(2, 3, 4)
        return torch.baddbmm(torch.full((2, 3, 3), held, device=x.device), query, query.mT, beta=0, alpha=0.5)

    return run


def _mixed(function: Function, dtype: torch.dtype) -> Function:
    """A product with a matrix of ``dtype``."""
    return lambda x: function(x.new_zeros(2, 2), x.new_zeros(2, 2, dtype=dtype))


def _added(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.addmm(left, left, right)


def _products(batch: int) -> Function:
    return lambda x: torch.bmm(x.new_zeros(batch, 2**14, 1), x.new_zeros(batch, 1, 2**14))


PAIRS = {
    "baddbmm-beta-zero": Pair("2.13.0", _scores(math.nan), _scores(0.0)),
    "mm-two-dtypes-ends": Pair("2.6.0", *(_mixed(torch.mm, dtype) for dtype in (torch.float16, torch.float32))),
    "mm-two-dtypes": Pair("2.7.0", *(_mixed(torch.mm, dtype) for dtype in (torch.float16, torch.float32))),
    "addmm-two-dtypes": Pair("2.13.0", *(_mixed(_added, dtype) for dtype in (torch.float16, torch.float32))),
    "bmm-many-elements-ends": Pair("2.4.1", _products(17), _products(16)),
}
