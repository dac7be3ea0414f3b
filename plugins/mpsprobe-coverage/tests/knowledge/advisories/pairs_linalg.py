"""Pairs of small models for the advisories of linear algebra: see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Pair, _of


def _solved(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.linalg.lstsq(left, right)[0]


PAIRS = {
    "lstsq-complex-wide": Pair(
        "2.14.0",
        *(_of(_solved, (64, 32, width), (64, 32, 3), dtype=torch.complex64) for width in (48, 24)),
    ),
}
