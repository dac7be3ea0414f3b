"""Pairs of linear algebra."""

from __future__ import annotations

import torch
from pairs import Function, Pair


def _inverse(rows: int) -> Function:
    return lambda x: torch.linalg.inv_ex(x.new_zeros(rows, rows))


PAIRS = {
    "householder-above-32": Pair(
        "2.10.0",
        lambda x: torch.linalg.householder_product(x.new_zeros(33, 33), x.new_zeros(33)),
        lambda x: torch.linalg.householder_product(x.new_zeros(32, 32), x.new_zeros(32)),
    ),
    "inverse-large": Pair("2.7.0", _inverse(1025), _inverse(1024)),
}
