"""Pairs of ``indexing.toml``; see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair


def _filled(rows: int) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        return x.new_zeros(rows, 2**15).masked_fill_(x.new_zeros(1, dtype=torch.bool), 0)

    return run


PAIRS = {"masked-fill-many-bytes": Pair("2.6.0", _filled(2**15 + 1), _filled(2**15))}
