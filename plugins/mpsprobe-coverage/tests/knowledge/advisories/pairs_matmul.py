"""Pairs of matrix products and linear layers."""

from __future__ import annotations

import math
from typing import Any

import torch
from pairs import Function, Pair
from torch.nn import functional


def _complex(inner: int) -> Function:
    return lambda x: torch.mm(*(x.new_zeros(shape, dtype=torch.complex64) for shape in ((4, inner), (inner, 4))))


def _expanded(batch: int) -> Function:
    return lambda x: functional.linear(x.new_zeros(1, 9, 8).expand(batch, 9, 8), x.new_zeros(4, 8), x.new_zeros(4))


def _image(*order: int) -> Function:
    """A linear layer over an image, whose output is permuted before the loss."""

    def run(x: torch.Tensor) -> Any:
        made = functional.linear(x.new_zeros(2, 8, 3, 4) + x.sum(), x.new_zeros(4, 4) + x.sum())
        return made.permute(order).contiguous() ** 2

    return run


def _scores(held: float) -> Function:
    """The scores of sliced attention, with an input full of ``held`` that is to be ignored."""

    def run(x: torch.Tensor) -> torch.Tensor:
        query = x.new_zeros(2, 3, 4)
        return torch.baddbmm(torch.full((2, 3, 3), held, device=x.device), query, query.mT, beta=0, alpha=0.5)

    return run


def _mixed(function: Function, dtype: torch.dtype) -> Function:
    """A product with a matrix of ``dtype``."""
    return lambda x: function(x.new_zeros(2, 2), x.new_zeros(2, 2, dtype=dtype))


def _addmm(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.addmm(left, left, right)


def _products(batch: int) -> Function:
    return lambda x: torch.bmm(x.new_zeros(batch, 2**14, 1), x.new_zeros(batch, 1, 2**14))


PAIRS = {
    "matmul-complex-long": Pair("2.9.1", _complex(3000), _complex(100)),
    "linear-sliced-weight": Pair(
        "2.8.0",
        lambda x: functional.linear(x.new_zeros(2, 8), x.new_zeros(12, 8)[::2]),
        lambda x: functional.linear(x.new_zeros(2, 8), x.new_zeros(12, 8)[:6]),
    ),
    "linear-expanded-input": Pair("2.8.0", _expanded(5), _expanded(1)),
    "linear-backward-channels-last": Pair("2.11.0", _image(0, 2, 3, 1), _image(0, 1, 2, 3), "training"),
    "bmm-large-dimension": Pair(
        "2.1.0",
        lambda x: torch.bmm(x.new_zeros(2, 9, 1), x.new_zeros(2, 1, 32769)),
        lambda x: torch.bmm(x.new_zeros(2, 9, 1), x.new_zeros(2, 1, 32768)),
    ),
    "linear-large-output": Pair(
        "2.2.1",
        lambda x: functional.linear(x.new_zeros(9, 4, 1), x.new_zeros(50304, 1)),
        lambda x: functional.linear(x.new_zeros(9, 4, 2), x.new_zeros(50304, 2)),
    ),
    "baddbmm-beta-zero": Pair("2.13.0", _scores(math.nan), _scores(0.0)),
    "mm-two-dtypes-ends": Pair("2.6.0", *(_mixed(torch.mm, dtype) for dtype in (torch.float16, torch.float32))),
    "mm-two-dtypes": Pair("2.7.0", *(_mixed(torch.mm, dtype) for dtype in (torch.float16, torch.float32))),
    "addmm-two-dtypes": Pair("2.13.0", *(_mixed(_addmm, dtype) for dtype in (torch.float16, torch.float32))),
    "bmm-many-elements-ends": Pair("2.4.1", _products(17), _products(16)),
}
