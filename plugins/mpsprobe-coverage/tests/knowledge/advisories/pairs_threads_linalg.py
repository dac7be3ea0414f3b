"""Pairs of small models for the advisories of linear algebra that threads of PyTorch show: see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Pair, _of

PAIRS = {
    "solve-broadcast": Pair(
        "2.12.1", _of(torch.linalg.solve, (2, 3, 3), (3, 1)), _of(torch.linalg.solve, (2, 3, 3), (2, 3, 1))
    ),
}
