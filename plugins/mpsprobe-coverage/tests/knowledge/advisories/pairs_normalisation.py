"""Pairs of ``normalisation.toml``; see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair
from torch.nn import functional


def _norm(memory_format: torch.memory_format) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        image = (x.sum() + x.new_zeros(2, 4, 5, 5)).contiguous(memory_format=memory_format)
        return functional.batch_norm(image, None, None, training=True)

    return run


PAIRS = {
    "batch-norm-channels-last-gradient": Pair(
        "2.7.0", _norm(torch.channels_last), _norm(torch.contiguous_format), "training"
    )
}
