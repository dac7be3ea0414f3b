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


PAIRS = {"baddbmm-beta-zero": Pair("2.13.0", _scores(math.nan), _scores(0.0))}
