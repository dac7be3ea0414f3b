"""Pairs of ``fft.toml``; see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Pair

PAIRS = {
    "irfft-reversed": Pair(
        "2.3.0",
        lambda x: torch.fft.irfft(torch.fft.rfft(x.new_zeros(5)), 5),
        lambda x: torch.fft.irfft(torch.fft.rfft(x.new_zeros(2)), 2),
    ),
}
