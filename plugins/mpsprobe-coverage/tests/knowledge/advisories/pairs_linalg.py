"""Pairs of ``linalg.toml``; see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair


def _inverse(rows: int) -> Function:
    return lambda x: torch.linalg.inv_ex(x.new_zeros(rows, rows))


PAIRS = {"inverse-large": Pair("2.7.0", _inverse(1025), _inverse(1024))}
