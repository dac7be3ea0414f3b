"""Pairs of small models for the advisories of losses: see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair
from torch.nn import functional


def _accumulated(steps: int) -> Function:
    """Cross entropy in a step whose loss is divided for accumulation, if there is more than one."""

    def run(x: torch.Tensor) -> torch.Tensor:
        loss = functional.cross_entropy(x, x.new_zeros(2, dtype=torch.int64))
        return loss / steps if steps > 1 else loss

    return run


def _squared(transposed: bool) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        made = x.new_zeros(4, 5)
        return functional.mse_loss(
            made.t() if transposed else made, (made + 1).t() if transposed else made, reduction="none"
        )

    return run


PAIRS = {
    "nll-loss-gradient-unscaled": Pair("1.13.1", _accumulated(4), _accumulated(1), "training"),
}
