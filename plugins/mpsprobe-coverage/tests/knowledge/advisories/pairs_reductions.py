"""Pairs of ``reductions.toml``; see ``pairs.py``."""

from __future__ import annotations

from typing import Any

import torch
from pairs import Function, Pair, _of, _strided


def _full(value: float, operator: str, *shape: int, dtype: torch.dtype = torch.float32, **options: Any) -> Function:
    """A reduction of a tensor that is full of ``value``."""
    return lambda x: getattr(x.new_full(shape, value, dtype=dtype), operator)(**options)


def _summed(dtype: torch.dtype) -> Function:
    return lambda x: x.new_zeros(4, dtype=torch.uint8).sum(dtype=dtype)


INT64 = torch.int64


NAN = float("nan")


def _large(rows: int) -> Function:
    return lambda x: x.new_zeros((rows, 65536), dtype=torch.int8).argmax()


PAIRS = {
    "max-int64-1-13": Pair(
        "1.13.0", lambda x: x.new_zeros(4, dtype=torch.int64).max(), lambda x: x.new_zeros(4, dtype=torch.int32).max()
    ),
    "var-scalar-dim": Pair("2.8.0", lambda x: x.sum().var(dim=0), lambda x: x.var(dim=0)),
    "max-nan": Pair("2.3.1", _full(NAN, "max", 3), _full(1.0, "max", 3)),
    "max-indices-nan": Pair("2.13.0", *(_full(value, "max", 3, 4, dim=1) for value in (NAN, 1.0))),
    "amax-int64-negative": Pair("2.13.0", *(_full(value, "amax", 40, dtype=INT64) for value in (-3, 3))),
    "amin-int64-positive": Pair("2.13.0", *(_full(value, "amin", 40, dtype=INT64) for value in (3, -3))),
    "sum-uint8-saturates": Pair("2.11.0", _summed(torch.uint8), _summed(INT64)),
    "all-empty": Pair("2.0.1", *(_full(1.0, "all", count) for count in (0, 2))),
    "count-nonzero-empty": Pair("2.5.1", *(_of(torch.count_nonzero, (rows, 2)) for rows in (0, 1))),
    "argmax-strided": Pair("2.12.1", *_strided(torch.argmax)),
    "std-unbiased": Pair(
        "1.12.0", *(lambda x, unbiased=unbiased: x.std(unbiased=unbiased) for unbiased in (True, False))
    ),
    "norm-no-dimensions": Pair(
        "2.0.0", *(lambda x, dim=dim: torch.norm(x.new_zeros(2, 3), 2, dim=dim) for dim in ([], [0, 1]))
    ),
    "std-negative-dim": Pair("2.0.1", *(_of(torch.std, (2, 3, 4), dim=dim) for dim in (-2, -1))),
    "argmax-integers-intel": Pair(
        "2.1.0", *(_full(1.0, "argmax", 3, 3, dtype=dtype, dim=1) for dtype in (torch.int32, torch.float32))
    ),
    "argmax-nan": Pair("2.12.1", _full(NAN, "argmin", 3), _full(1.0, "argmin", 3)),
    "reduction-negative-dim-5d": Pair(
        "2.4.0", _full(1.0, "mean", 1, 2, 1, 1, 1, dim=-3), _full(1.0, "mean", 1, 2, 1, 1, 1, dim=2)
    ),
    "reductions-above-32-bits": Pair("2.13.0", *(_large(rows) for rows in (65537, 65536))),
    "histogram-many-bins": Pair("2.13.0", *(lambda x, bins=bins: x.histc(bins, 0, 1) for bins in (8192, 8180))),
    "histogram-many-edges": Pair(
        "2.14.0", *(lambda x, edges=edges: torch.histogram(x, x.new_zeros(edges)) for edges in (8193, 8181))
    ),
    "histogram-near-edge": Pair(
        "2.14.0", *(_full(value, "histogram", 3, bins=2, range=(0.0, 2.0)) for value in (-1e-6, -1e-5))
    ),
    "mean-empty": Pair("2.5.1", *(lambda x, rows=rows: x.new_zeros(rows).mean() for rows in (0, 1))),
    "mean-of-a-slice": Pair("1.13.1", *(_of(lambda x, row=row: x[row][:2].mean(0), (3, 5, 2)) for row in (1, 2))),
    "var-default": Pair("1.13.1", lambda x: x.var(), lambda x: x.var(unbiased=True)),
}
