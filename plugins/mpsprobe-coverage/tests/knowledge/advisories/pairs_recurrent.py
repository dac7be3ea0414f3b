"""Pairs of recurrent networks."""

from __future__ import annotations

from typing import Any

import torch
from pairs import Function, Pair


def _evaluated(dropout: float) -> Function:
    def run(x: torch.Tensor) -> Any:
        weights = [x.new_zeros(shape) for _ in range(2) for shape in ((12, 3), (12, 3), (12,), (12,))]
        states = (x.new_zeros(2, 2, 3), x.new_zeros(2, 2, 3))
        return torch.lstm(x.new_zeros(5, 2, 3), states, weights, True, 2, dropout, False, False, False)[0]

    return run


PAIRS = {"lstm-dropout-in-evaluation": Pair("2.11.0", _evaluated(0.5), _evaluated(0.0))}
