"""Pairs of ``pooling.toml``; see ``pairs.py``."""

from __future__ import annotations

from collections.abc import Callable

import torch
from pairs import Function, Pair, _of
from torch.nn import functional


def _tokens(first: int) -> Function:
    """Average pooling of tokens from ``first`` on, seen as an image."""
    return _of(
        lambda x: functional.avg_pool2d(x[:, first:].reshape(1, 8, 8, 4).permute(0, 3, 1, 2), 2), (1, 64 + first, 4)
    )


def _pooled(layout: torch.memory_format, pool: Callable[..., torch.Tensor] = functional.avg_pool2d) -> Function:
    """A pooled image that needs a gradient, with a sum behind it."""

    def run(x: torch.Tensor) -> torch.Tensor:
        image = (x.new_zeros(2, 3, 8, 8) + x.sum()).contiguous(memory_format=layout)
        return pool(image, 2).sum()

    return run


def _flattened(layout: torch.memory_format) -> Function:
    """Average pooling of an image that needs a gradient, with a flatten and a product behind it."""

    def run(x: torch.Tensor) -> torch.Tensor:
        image = (x.new_zeros(2, 3, 8, 8) + x.sum()).contiguous(memory_format=layout)
        return (functional.avg_pool2d(image, 2).flatten(1) * x.new_zeros(48)).sum()

    return run


def _ceil(width: int) -> Function:
    return _of(
        lambda x: functional.max_pool2d_with_indices(x, kernel_size=1, stride=2, ceil_mode=True)[0], (1, 1, 5, width)
    )


PAIRS = {
    "pool-backward-channels-last-expanded": Pair(
        "2.13.0", _pooled(torch.channels_last), _pooled(torch.contiguous_format), "training"
    ),
    "avg-pool-backward-channels-last": Pair(
        "2.13.0", _flattened(torch.channels_last), _flattened(torch.contiguous_format), "training"
    ),
    "max-pool-backward-channels-last-expanded": Pair(
        "2.10.0",
        _pooled(torch.channels_last, functional.max_pool2d),
        _pooled(torch.contiguous_format, functional.max_pool2d),
        "training",
    ),
    "max-pool-ceil-mode-stride": Pair("2.7.0", _ceil(6), _ceil(5)),
    "pool-above-31-bits": Pair(
        "2.14.0",
        *(_of(functional.max_pool2d, (images, 1, 8192, 8192), dtype=torch.half, kernel_size=2) for images in (33, 32)),
    ),
    "avg-pool-padding": Pair(
        "1.13.1", *(_of(functional.avg_pool2d, (1, 1, 4, 4), kernel_size=2, padding=size) for size in (1, 0))
    ),
    "max-pool-ceil-mode-raises": Pair("2.8.0", _ceil(6), _ceil(5)),
}
