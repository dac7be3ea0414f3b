"""Pairs of ``convolution.toml``; see ``pairs.py``."""

from __future__ import annotations

from typing import Any

import torch
from pairs import Function, Pair, _of
from torch.nn import functional


def _strided(**options: Any) -> Function:
    return lambda x: functional.conv2d(x.new_zeros(1, 3, 9, 9), x.new_zeros(2, 3, 3, 3), **options)


def _sequence(*, permuted: bool, trained: bool = False) -> Function:
    """A convolution of one channel, which was the last dimension before, if ``permuted``."""

    def run(x: torch.Tensor) -> Any:
        made = x.new_zeros(2, 9, 1).permute(0, 2, 1) if permuted else x.new_zeros(2, 1, 9)
        return functional.conv1d(made, x.new_zeros(2, 1, 3) + (x.sum() if trained else 0))

    return run


def _transposed_after(*, channels: bool) -> Function:
    """A convolution whose gradient has the channels innermost, if ``channels``."""

    def run(x: torch.Tensor) -> Any:
        made = functional.conv1d(x.new_zeros(1, 2, 7) + x.sum(), x.new_zeros(5, 2, 3) + x.sum(), padding=1)
        return (made.transpose(1, 2).contiguous() if channels else made) ** 2

    return run


def _trained(batch: int) -> Function:
    return lambda x: functional.conv1d(x.new_zeros(batch, 1, 1), x.sum() + x.new_zeros(1, 1, 1))


def _spatial(batch: int) -> Function:
    return _of(functional.conv2d, (batch, 8, 32, 4), (16, 1, 32, 1), groups=8)


def _folded(length: int) -> Function:
    return _of(functional.fold, (1, length, length), output_size=(1, 2 * length - 1), kernel_size=(1, length))


PAIRS = {
    "conv-uneven-strides-1-12": Pair("1.12.1", _strided(dilation=(1, 2)), _strided(padding=(1, 2))),
    "conv1d-channels-last-1-12": Pair("1.12.1", _sequence(permuted=True), _sequence(permuted=False)),
    "conv1d-backward-cl-1-12": Pair(
        "1.12.1", *(_sequence(permuted=permuted, trained=True) for permuted in (True, False)), "training"
    ),
    "conv1d-backward-cl-gradient": Pair(
        "2.5.1", _transposed_after(channels=True), _transposed_after(channels=False), "training"
    ),
    "conv-backward-cl-macos-14": Pair(
        "2.5.1", _transposed_after(channels=True), _transposed_after(channels=False), "training", macos="14.0"
    ),
    "conv-weight-gradient-batch": Pair("1.13.1", _trained(65536), _trained(65535), "training"),
    "conv-depthwise-full-height": Pair("2.12.1", _spatial(2), _spatial(1)),
    "col2im-above-32-bits": Pair("2.12.1", _folded(65537), _folded(65535)),
}
