"""Pairs of ``resampling.toml``; see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair, _of
from torch.nn import functional


def _interpolated(length: int) -> Function:
    return lambda x: functional.interpolate(x.new_zeros(3, 1, length), 3, mode="linear", align_corners=True)


def _enlarged(layout: torch.memory_format) -> Function:
    return _of(lambda x: functional.interpolate(x.contiguous(memory_format=layout), 4, mode="bilinear"), (1, 2, 3, 3))


def _image(layout: torch.memory_format) -> Function:
    return _of(
        lambda x, grid: functional.grid_sample(x.contiguous(memory_format=layout), grid, align_corners=False),
        (1, 4, 8, 8), (1, 8, 8, 2),
    )  # fmt: skip


def _volume(*order: int) -> Function:
    return _of(
        lambda x, grid: functional.grid_sample(x, grid.permute(order), align_corners=False),
        (1, 4, 3, 3, 3),
        (1, 3, 3, 3, 3),
    )


def _places(count: int) -> Function:
    return _of(functional.grid_sample, (1, 4, 6, 8), (1, 1, count, 2), align_corners=True)


def _at(place: float) -> Function:
    """A volume of ones, sampled where all coordinates are that number."""
    return lambda x: functional.grid_sample(
        x.new_ones(1, 1, 3, 3, 3), x.new_full((1, 1, 1, 2, 3), place), align_corners=True
    )


PAIRS = {
    "upsample-batch-macos-14": Pair(
        "2.0.1",
        *(lambda x, batch=batch: functional.interpolate(x.new_zeros(batch, 1, 4, 4), size=8) for batch in (2, 1)),
        macos="14.0",
    ),
    "upsample-linear-one": Pair("2.5.1", _interpolated(1), _interpolated(2)),
    "upsample-channels-last-1-13": Pair("1.13.0", _enlarged(torch.channels_last), _enlarged(torch.contiguous_format)),
    "grid-sample-channels-last": Pair("2.10.0", _image(torch.channels_last), _image(torch.contiguous_format)),
    "grid-sample-volume-strided-grid": Pair("2.10.0", _volume(0, 2, 3, 4, 1), _volume(0, 1, 2, 3, 4)),
    "grid-sample-volume-nan": Pair("2.9.0", _at(float("nan")), _at(0.0)),
    "grid-sample-empty": Pair("2.10.0", _places(0), _places(1)),
}
