"""Pairs of small models for the advisories of random numbers: see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair


def _sampled(value: float, count: int = 1, replacement: bool = False) -> Function:
    return lambda x: torch.multinomial(torch.cat([x.new_full((5,), value), x.new_ones(5)]), count, replacement)


PAIRS = {
    "multinomial-zero-probability": Pair("2.13.0", _sampled(0.0), _sampled(0.5)),
    "exponential-zeros": Pair("2.7.1", lambda x: x.new_zeros(9).exponential_(), lambda x: x.new_zeros(9).uniform_()),
    "bernoulli-macos-13": Pair("1.12.1", lambda x: torch.bernoulli(x.sigmoid()), lambda x: torch.rand_like(x)),
    "multinomial-macos-12": Pair("2.3.1", _sampled(0.5, 3, replacement=True), _sampled(0.5, 3)),
}
