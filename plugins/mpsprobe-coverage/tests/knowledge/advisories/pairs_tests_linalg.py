"""Pairs of linear algebra."""

from __future__ import annotations

import torch
from pairs import Pair

PAIRS = {
    "householder-above-32": Pair(
        "2.10.0",
        lambda x: torch.linalg.householder_product(x.new_zeros(33, 33), x.new_zeros(33)),
        lambda x: torch.linalg.householder_product(x.new_zeros(32, 32), x.new_zeros(32)),
    ),
}
