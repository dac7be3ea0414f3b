"""Pairs of ``normalisation.toml``; see ``pairs.py``."""

from __future__ import annotations

from typing import Any

import torch
from pairs import Function, Pair, _of
from torch.nn import functional


def _norm(memory_format: torch.memory_format) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        image = (x.sum() + x.new_zeros(2, 4, 5, 5)).contiguous(memory_format=memory_format)
        return functional.batch_norm(image, None, None, training=True)

    return run


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


def _rows(first: int) -> Function:
    return _of(lambda x: functional.layer_norm(x[first:], (4,)), (3, 4))


def _spread(largest: float) -> Function:
    return lambda x: functional.layer_norm(torch.tensor([[-largest, largest]], device=x.device), (2,), eps=1e-7)


def _tokens(first: int) -> Function:
    """Batch norm of tokens from ``first`` on, seen as an image."""
    return _of(
        lambda x, weight: functional.batch_norm(
            x[:, first:].reshape(1, 8, 8, 4).permute(0, 3, 1, 2), weight, weight, weight, weight
        ),
        (1, 64 + first, 4), (4,),
    )  # fmt: skip


def _volume(*order: int) -> Function:
    return _of(lambda x: functional.batch_norm(x.permute(order), None, None, training=True), (2, 3, 4, 4, 3))


def _tracked(*, weighted: bool) -> Function:
    def run(x: torch.Tensor) -> Any:
        weight = x.new_ones(3) if weighted else None
        return functional.batch_norm(x.new_zeros(2, 3, 4, 4), x.new_zeros(3), x.new_ones(3), weight, weight, True)

    return run


PAIRS = {
    "batch-norm-channels-last-gradient": Pair(
        "2.7.0", _norm(torch.channels_last), _norm(torch.contiguous_format), "training"
    ),
    "batch-norm-cl-gradient-macos-14": Pair(
        "2.4.0", _norm(torch.channels_last), _norm(torch.contiguous_format), "training", macos="14.0"
    ),
    "batch-norm-unweighted-1-12": Pair("1.12.1", _tracked(weighted=False), _tracked(weighted=True)),
    "batch-norm-frozen-backward": Pair(
        "2.0.0", *(_batch_norm(2, 3, 4, 4, trained=trained) for trained in (False, True)), "training"
    ),
    "layer-norm-frozen-backward": Pair("2.0.0", _layer_norm(trained=False), _layer_norm(trained=True), "training"),
    "batch-norm-1d-gradient": Pair(
        "2.7.1", _batch_norm(2, 3, 4, trained=True), _batch_norm(2, 3, 4, 4, trained=True), "training"
    ),
    "norm-pool-channels-last-offset": Pair("2.10.0", _patches(1), _patches(0)),
    "layer-norm-small-variance": Pair("2.13.0", _spread(1e-3), _spread(1.0)),
    "layer-norm-offset": Pair("2.4.0", _rows(1), _rows(0)),
    "batch-norm-volume-channels-last": Pair("2.10.0", _volume(0, 4, 1, 2, 3), _volume(0, 1, 2, 3, 4)),
}
