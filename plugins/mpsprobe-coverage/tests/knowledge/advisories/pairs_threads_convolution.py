"""Pairs of small models for the advisories of convolutions that threads of PyTorch show: see ``pairs.py``."""

from __future__ import annotations

from pairs import Function, Pair, _of
from torch.nn import functional


def _trained(batch: int) -> Function:
    return lambda x: functional.conv1d(x.new_zeros(batch, 1, 1), x.sum() + x.new_zeros(1, 1, 1))


def _spatial(batch: int) -> Function:
    return _of(functional.conv2d, (batch, 8, 32, 4), (16, 1, 32, 1), groups=8)


def _folded(length: int) -> Function:
    return _of(functional.fold, (1, length, length), output_size=(1, 2 * length - 1), kernel_size=(1, length))


PAIRS = {
    "conv-weight-gradient-batch": Pair("1.13.1", _trained(65536), _trained(65535), "training"),
    "conv-depthwise-full-height": Pair("2.12.1", _spatial(2), _spatial(1)),
    "col2im-above-32-bits": Pair("2.12.1", _folded(65537), _folded(65535)),
}
