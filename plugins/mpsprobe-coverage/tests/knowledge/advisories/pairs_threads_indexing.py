"""Pairs of small models for the advisories of indexing: see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair, _of, _strided
from torch.nn import functional


def _copied(step: int) -> Function:
    return lambda x: x.new_zeros(5).index_copy(0, x.new_zeros(5 * step, dtype=torch.int64)[::step], x.new_zeros(5))


def _looked_up(index: int) -> Function:
    return lambda x: functional.embedding(x.new_full((3,), index, dtype=torch.int64), x.new_zeros(9, 4))


def _bag(index: int) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        offsets = x.new_zeros(1, dtype=torch.int64)
        return functional.embedding_bag(x.new_full((3,), index, dtype=torch.int64), x.new_zeros(5, 3), offsets)

    return run


def _selected(value: int) -> Function:
    return _of(lambda x: x.masked_fill_(torch.zeros_like(x), value), (4,), dtype=torch.bool)


PAIRS = {
    "index-copy-strided-index": Pair("2.8.0", _copied(2), _copied(1)),
    "index-select-out-of-range": Pair("2.3.0", _looked_up(9), _looked_up(8)),
    "embedding-bag-out-of-range": Pair("2.13.0", _bag(5), _bag(4)),
    "nonzero-macos-14-4": Pair("2.2.2", _of(torch.nonzero, (3, 4)), _of(torch.nonzero, (12,))),
    "masked-fill-strided": Pair("2.3.1", *_strided(lambda x: x.masked_fill_(torch.zeros_like(x, dtype=torch.bool), 1))),
    "masked-fill-bool": Pair("1.13.1", _selected(3), _selected(1)),
}
