"""Pairs of ``indexing.toml``; see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair, _of, _strided
from torch.nn import functional


def _filled(rows: int) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        return x.new_zeros(rows, 2**15).masked_fill_(x.new_zeros(1, dtype=torch.bool), 0)

    return run


def _scattered(*shape: int) -> Function:
    return lambda x: x.new_zeros(5).masked_scatter(x.new_zeros(5, dtype=torch.bool), x.new_zeros(shape))


def _added(row: int) -> Function:
    return lambda x: x.new_zeros(2, 4)[row].scatter_add_(0, x.new_zeros(2, dtype=torch.int64), x.new_zeros(2))


def _copied(step: int) -> Function:
    return lambda x: x.new_zeros(5).index_copy(0, x.new_zeros(5 * step, dtype=torch.int64)[::step], x.new_zeros(5))


def _looked_up(index: int, count: int = 3) -> Function:
    return lambda x: functional.embedding(x.new_full((count,), index, dtype=torch.int64), x.new_zeros(9, 4))


def _selected_rows(dtype: torch.dtype) -> Function:
    return lambda x: x.new_zeros(4, 2, dtype=dtype).index_select(0, _at(x, 0, 1))


def _bag(index: int) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        offsets = x.new_zeros(1, dtype=torch.int64)
        return functional.embedding_bag(x.new_full((3,), index, dtype=torch.int64), x.new_zeros(5, 3), offsets)

    return run


def _selected(value: int) -> Function:
    return _of(lambda x: x.masked_fill_(torch.zeros_like(x), value), (4,), dtype=torch.bool)


def _at(x: torch.Tensor, *indices: int) -> torch.Tensor:
    return torch.tensor(indices, device=x.device)


def _into(transposed: bool) -> Function:
    """Into a matrix that may be transposed."""

    def run(x: torch.Tensor) -> torch.Tensor:
        matrix = x.new_zeros(5, 4).t() if transposed else x.new_zeros(4, 5)
        return matrix.scatter_(1, x.new_zeros(4, 2, dtype=torch.int64), x.new_zeros(4, 2))

    return run


def _scattered_number(last: int) -> Function:
    """Along the dimension before one of that size."""
    return lambda x: x.new_zeros(3, 5, last).scatter_(1, x.new_zeros(3, 2, last, dtype=torch.int64), 1.0)


def _bags(end: int) -> Function:
    """A bag of the first ``end`` of three indices."""

    def run(x: torch.Tensor) -> torch.Tensor:
        return functional.embedding_bag(_at(x, 0, 1, 2), x.new_zeros(4, 4), _at(x, 0, end), include_last_offset=True)

    return run


def _counted(scaled: bool) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        weight = x.sum() + x.new_zeros(4, 3)
        return functional.embedding_bag(_at(x, 1, 1), weight, _at(x, 0), mode="sum", scale_grad_by_freq=scaled)

    return run


def _chosen(transposed: bool) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        flags = x.new_zeros(2, 2, dtype=torch.bool)
        return torch.where(flags.T if transposed else flags, x.new_zeros(2, 2), 0)

    return run


PAIRS = {
    "masked-scatter-scalar": Pair(
        "2.10.0",
        *(
            lambda x, size=size: x.new_zeros(size).masked_scatter(x.new_ones(size, dtype=torch.bool), x.new_ones(1))
            for size in ((), (1,))
        ),
    ),
    "embedding-backward-scalar-index": Pair(
        "1.13.0",
        *(
            lambda x, size=size: torch.nn.functional.embedding(
                x.new_ones(size, dtype=torch.int64), x.sum() + x.new_zeros(5, 3)
            )
            for size in ((), (1,))
        ),
        "training",
    ),
    "masked-fill-many-bytes": Pair("2.6.0", _filled(2**15 + 1), _filled(2**15)),
    "masked-scatter-source": Pair("2.10.0", _scattered(2, 2), _scattered(4)),
    "isin-macos-13": Pair(
        "2.6.0", lambda x: torch.isin(x.new_zeros(4), x.new_zeros(2)), lambda x: x.new_zeros(4) == x.new_zeros(1)
    ),
    "where-strided-condition-macos-13": Pair("2.6.0", _chosen(transposed=True), _chosen(transposed=False)),
    "repeat-interleave-offset": Pair(
        "2.9.1",
        lambda x: torch.repeat_interleave(torch.tensor([1, 2, 2], device=x.device)[1:]),
        lambda x: torch.repeat_interleave(torch.tensor([2, 2], device=x.device)),
    ),
    "scatter-add-offset": Pair("2.8.0", _added(1), _added(0)),
    "index-copy-strided-index": Pair("2.8.0", _copied(2), _copied(1)),
    "index-select-out-of-range": Pair("2.3.0", _looked_up(9), _looked_up(8)),
    "index-select-empty": Pair("1.13.1", *(_looked_up(8, count) for count in (0, 1))),
    "embedding-bag-out-of-range": Pair("2.13.0", _bag(5), _bag(4)),
    "nonzero-macos-14-4": Pair("2.2.2", _of(torch.nonzero, (3, 4)), _of(torch.nonzero, (12,))),
    "masked-fill-strided": Pair("2.3.1", *_strided(lambda x: x.masked_fill_(torch.zeros_like(x, dtype=torch.bool), 1))),
    "masked-fill-bool": Pair("1.13.1", _selected(3), _selected(1)),
    "index-put-out-of-range": Pair("2.9.1", *(lambda x, at=at: x.new_zeros(2)[_at(x, at)] for at in (2, 1))),
    "index-copy-out-of-range": Pair(
        "2.13.0", *(lambda x, at=at: x.new_zeros(2).index_copy_(0, _at(x, at), x.new_zeros(1)) for at in (2, 1))
    ),
    "index-reduce-out-of-range": Pair(
        "2.13.0",
        *(lambda x, at=at: x.new_zeros(2).index_reduce_(0, _at(x, at), x.new_zeros(1), "amax") for at in (-1, 1)),
    ),
    "index-fill-out-of-range": Pair(
        "2.13.0", *(lambda x, at=at: x.new_zeros(3, 2).index_fill_(1, _at(x, at), 7.0) for at in (2, -1))
    ),
    "boolean-index-macos-14-4": Pair(
        "2.2.2",
        *(lambda x, shape=shape: x.new_zeros(shape)[x.new_ones(shape, dtype=torch.bool)] for shape in ((2, 3), 6)),
    ),
    "scatter-permuted-macos-14": Pair("2.2.0", _into(transposed=True), _into(transposed=False)),
    "nonzero-large": Pair("2.4.0", *(_of(torch.nonzero, (count,)) for count in (2**24 + 1, 2**24))),
    "embedding-bag-last-offset": Pair("2.13.0", *(_bags(end) for end in (2, 3))),
    "index-select-uint8-macos-12": Pair("1.13.0", *(_selected_rows(dtype) for dtype in (torch.uint8, torch.int8))),
    "gather-scalar-1-12": Pair(
        "1.12.1", *(lambda x, shape=shape: x.new_zeros(shape).gather(0, _at(x, 0).view(shape)) for shape in ((), (1,)))
    ),
    "embedding-bag-frequency": Pair("2.13.0", *(_counted(scaled) for scaled in (True, False)), "training"),
    "scatter-trailing-one-ends": Pair("2.3.0", _scattered_number(1), _scattered_number(2)),
}
