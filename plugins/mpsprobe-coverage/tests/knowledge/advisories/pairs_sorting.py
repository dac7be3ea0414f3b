"""Pairs of ``sorting.toml``; see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Pair, _of, _strided

PAIRS = {
    "unique-leading-one": Pair("2.0.1", lambda x: x.new_zeros(1, 1, 2).unique(), lambda x: x.new_zeros(2).unique()),
    "topk-none": Pair("1.13.1", lambda x: x.new_zeros(4).topk(0), lambda x: x.new_zeros(4).topk(1)),
    "topk-more-than-16": Pair("1.12.0", *(_of(torch.topk, (30,), k=count) for count in (17, 16))),
    "sort-strided": Pair("2.10.0", *_strided(lambda x: x.sort(dim=0)[0])),
    "sort-strided-slice": Pair("2.0.1", *(_of(lambda x, step=step: x[::step].sort()[0], (8,)) for step in (2, 1))),
    "sort-nan": Pair(
        "2.1.2", *(lambda x, value=value: x.new_full((3,), value).sort()[0] for value in (float("nan"), 1.0))
    ),
    "sort-int64-macos-15-5": Pair(
        "2.8.0", *(_of(lambda x: x.sort()[0], (length,), dtype=torch.int64) for length in (257, 256))
    ),
    "unique-inverse-large": Pair(
        "2.13.0",
        *(
            lambda x, value=value: x.new_full((3,), value, dtype=torch.int64).unique(return_inverse=True)[1]
            for value in (2**24 + 1, 2**24)
        ),
    ),
    "sort-many-rows": Pair(
        "2.12.0", *(_of(lambda x: x.sort(dim=0)[0], (3, columns)) for columns in (2**22 + 1, 2**22))
    ),
}
