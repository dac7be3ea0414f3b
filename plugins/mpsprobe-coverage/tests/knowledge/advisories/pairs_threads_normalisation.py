"""Pairs of small models for the advisories of normalisation: see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair, _of
from torch.nn import functional


def _rows(first: int) -> Function:
    return _of(lambda x: functional.layer_norm(x[first:], (4,)), (3, 4))


def _tokens(first: int) -> Function:
    """Batch norm of tokens from ``first`` on, seen as an image."""
    return _of(
        lambda x, weight: functional.batch_norm(
            x[:, first:].reshape(1, 8, 8, 4).permute(0, 3, 1, 2), weight, weight, weight, weight
        ),
        (1, 64 + first, 4), (4,),
    )  # fmt: skip


def _trained(layout: torch.memory_format) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        image = (x.new_zeros(2, 3, 4, 4) + x.sum()).contiguous(memory_format=layout)
        return functional.batch_norm(image, None, None, training=True)

    return run


def _volume(*order: int) -> Function:
    return _of(lambda x: functional.batch_norm(x.permute(order), None, None, training=True), (2, 3, 4, 4, 3))


PAIRS = {
    "layer-norm-offset": Pair("2.4.0", _rows(1), _rows(0)),
    "batch-norm-backward-strided": Pair(
        "2.13.0", _trained(torch.channels_last), _trained(torch.contiguous_format), "training"
    ),
    "batch-norm-volume-channels-last": Pair("2.10.0", _volume(0, 4, 1, 2, 3), _volume(0, 1, 2, 3, 4)),
}
