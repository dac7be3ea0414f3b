"""Pairs of ``random.toml``; see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair


def _drawn(probability: float) -> Function:
    return lambda x: torch.multinomial(torch.tensor([probability, 0.5], device=x.device), 1)


PAIRS = {"multinomial-zero-probability": Pair("2.13.0", _drawn(0.0), _drawn(0.5))}
