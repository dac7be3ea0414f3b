"""Pairs of matrix products and linear layers."""

from __future__ import annotations

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


PAIRS = {
    "matmul-complex-long": Pair("2.9.1", _complex(3000), _complex(100)),
    "linear-sliced-weight": Pair(
        "2.8.0",
        lambda x: functional.linear(x.new_zeros(2, 8), x.new_zeros(12, 8)[::2]),
        lambda x: functional.linear(x.new_zeros(2, 8), x.new_zeros(12, 8)[:6]),
    ),
    "linear-expanded-input": Pair("2.8.0", _expanded(5), _expanded(1)),
    "linear-backward-channels-last": Pair("2.11.0", _image(0, 2, 3, 1), _image(0, 1, 2, 3), "training"),
}
