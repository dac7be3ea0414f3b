"""The pairs of operators on single elements."""

from __future__ import annotations

from typing import Any

import torch
from pairs import Function, Pair
from torch.nn import functional

HALF, LONG = torch.float16, torch.int64


def _remainder(largest: int) -> Function:
    return lambda x: torch.tensor([largest, 5], device=x.device) % 31


def _added(alpha: float) -> Function:
    return lambda x: x.new_zeros(4, 8, dtype=HALF).add_(x.new_zeros(4, 8), alpha=alpha)


def _nan(value: float, operator: Any) -> Function:
    return lambda x: operator(torch.tensor([value, 1.0], device=x.device))


PAIRS = {
    "elu-strided": Pair(
        "2.3.1", lambda x: functional.elu(x.new_zeros(5, 4).t()), lambda x: functional.elu(x.new_zeros(5, 4))
    ),
    "remainder-large-integers": Pair("2.7.0", _remainder(42309891), _remainder(42309)),
    "fmax-mixed-dtypes": Pair(
        "2.6.0", lambda x: torch.fmax(x, x.new_zeros(3, dtype=HALF)), lambda x: torch.fmax(x, x.new_zeros(3))
    ),
    "add-alpha-promoted": Pair("2.11.0", _added(0.5), _added(1)),
    "maximum-nan": Pair(
        "2.6.0", *(_nan(value, lambda made: torch.maximum(made, made)) for value in (float("nan"), 0.0))
    ),
    "shift-of-a-number": Pair(
        "2.6.0", lambda x: 1 << x.new_zeros(4, dtype=LONG), lambda x: x.new_zeros(4, dtype=LONG) << 1
    ),
    "shift-uint8": Pair(
        "2.5.1", lambda x: x.new_zeros(4, dtype=torch.uint8) >> 4, lambda x: x.new_zeros(4, dtype=torch.int32) >> 4
    ),
    "clamp-nan": Pair("2.1.2", *(_nan(value, lambda made: made.clamp(0, 1)) for value in (float("nan"), 0.0))),
    "unary-strided-output": Pair(
        "2.1.2",
        lambda x: torch.neg(x.new_zeros(2, 2), out=x.new_zeros(2, 2).t()),
        lambda x: torch.neg(x.new_zeros(2, 2), out=x.new_zeros(2, 2)),
    ),
}
