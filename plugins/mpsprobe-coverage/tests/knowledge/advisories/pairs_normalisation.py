"""The pairs of normalisation."""

from __future__ import annotations

from typing import Any

import torch
from pairs import Function, Pair
from torch.nn import functional


def _batch_norm(*shape: int, trained: bool) -> Function:
    """In training, whose weight and bias need a gradient where ``trained``."""

    def run(x: torch.Tensor) -> Any:
        weight = x.new_zeros(shape[1]) + (x.sum() if trained else 0)
        return functional.batch_norm(x.new_zeros(shape) + x.sum(), None, None, weight, weight, True)

    return run


def _layer_norm(*, trained: bool) -> Function:
    def run(x: torch.Tensor) -> Any:
        weight = x.new_zeros(4) + (x.sum() if trained else 0)
        return functional.layer_norm(x.new_zeros(4, 4) + x.sum(), (4,), weight, weight)

    return run


def _patches(first: int) -> Function:
    """Average pooling of the tokens from ``first`` on, seen as an image."""

    def run(x: torch.Tensor) -> Any:
        image = x.new_zeros(1, 64 + first, 8)[:, first:].reshape(1, 8, 8, 8).permute(0, 3, 1, 2)
        return functional.avg_pool2d(image, 2)

    return run


PAIRS = {
    "batch-norm-frozen-backward": Pair(
        "2.0.0", *(_batch_norm(2, 3, 4, 4, trained=trained) for trained in (False, True)), "training"
    ),
    "layer-norm-frozen-backward": Pair("2.0.0", _layer_norm(trained=False), _layer_norm(trained=True), "training"),
    "batch-norm-1d-gradient": Pair(
        "2.7.1", _batch_norm(2, 3, 4, trained=True), _batch_norm(2, 3, 4, 4, trained=True), "training"
    ),
    "norm-pool-channels-last-offset": Pair("2.10.0", _patches(1), _patches(0)),
}
