"""Pairs of ``linalg.toml``; see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair, _of


def _inverse(rows: int) -> Function:
    return lambda x: torch.linalg.inv_ex(x.new_zeros(rows, rows))


PAIRS = {
    "inverse-large": Pair("2.7.0", _inverse(1025), _inverse(1024)),
    "householder-above-32": Pair(
        "2.10.0",
        lambda x: torch.linalg.householder_product(x.new_zeros(33, 33), x.new_zeros(33)),
        lambda x: torch.linalg.householder_product(x.new_zeros(32, 32), x.new_zeros(32)),
    ),
    "solve-broadcast": Pair(
        "2.12.1", _of(torch.linalg.solve, (2, 3, 3), (3, 1)), _of(torch.linalg.solve, (2, 3, 3), (2, 3, 1))
    ),
}
