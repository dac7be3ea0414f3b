"""Pairs of small models for the advisories of Fourier transforms that threads of PyTorch show: see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Pair, _of

PAIRS = {
    "irfft-reversed": Pair(
        "2.3.0",
        _of(torch.fft.irfft, (5,), dtype=torch.complex64),
        _of(torch.fft.rfft, (8,)),
    ),
}
