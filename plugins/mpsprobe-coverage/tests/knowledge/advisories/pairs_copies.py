"""The pairs of copies, fills and joins."""

from __future__ import annotations

import torch
from pairs import Pair

PAIRS = {
    "write-strided-view-1-12": Pair(
        "1.12.0", lambda x: x.new_zeros(4, 6)[:, 0].copy_(x.new_zeros(4)), lambda x: x.new_zeros(4, 6)[0].copy_(x[0, 0])
    ),
    "copy-cast-offset": Pair(
        "2.0.0",
        lambda x: x.new_zeros(5)[2:4].copy_(x.new_zeros(2, dtype=torch.int64)),
        lambda x: x.new_zeros(5)[2:4].copy_(x.new_zeros(2)),
    ),
    "stack-offset-slices": Pair(
        "1.13.1",
        lambda x: torch.stack(x.new_zeros(4).split(2), dim=-1),
        lambda x: torch.stack(x.new_zeros(4).split(2), dim=0),
    ),
    "fill-permuted-1-13": Pair(
        "1.13.1",
        lambda x: torch.zeros_like(x.new_zeros(3, 2, 2).permute(2, 0, 1)),
        lambda x: torch.zeros_like(x.new_zeros(3, 2, 2)),
    ),
    "fill-zero-overrun": Pair(
        "2.1.1", lambda x: x.new_zeros(1, 10)[:, 9].fill_(0), lambda x: x.new_zeros(1, 10)[:, 9].fill_(1)
    ),
    "zero-slice-overrun": Pair(
        "2.1.1", lambda x: x.new_zeros(1, 10)[:, 9].zero_(), lambda x: x.new_zeros(1, 10)[:, 0].zero_()
    ),
    "fill-bytes-offset": Pair(
        "2.12.0",
        lambda x: x.new_zeros(16, dtype=torch.bool)[1:].fill_(True),
        lambda x: x.new_zeros(16, dtype=torch.int32)[1:].fill_(1),
    ),
    "arange-into-slice": Pair(
        "2.4.0",
        lambda x: torch.fft.fftfreq(10, device=x.device),
        lambda x: torch.arange(0, 5, out=x.new_zeros(10)[:5]),
    ),
}
