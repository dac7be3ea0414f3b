"""The pairs of random numbers."""

from __future__ import annotations

import torch
from pairs import Function, Pair


def _drawn(classes: int, samples: int, *, replacement: bool = True) -> Function:
    return lambda x: torch.multinomial(x.new_zeros(classes) + 1, samples, replacement=replacement)


PAIRS = {
    "random-five-dims": Pair(
        "2.6.0", *(lambda x, dims=dims: torch.randn((2, *[1] * (dims - 1)), device=x.device) for dims in (5, 4))
    ),
    "random-strided": Pair(
        "2.9.1", lambda x: torch.rand_like(x.new_zeros(3, 2).t()), lambda x: torch.rand_like(x.new_zeros(3, 2))
    ),
    "multinomial-many-classes": Pair("2.11.0", _drawn(131072, 100), _drawn(65536, 100)),
    "multinomial-replacement-macos-13": Pair("2.1.2", _drawn(32768, 2), _drawn(32767, 2)),
    "multinomial-strided": Pair(
        "2.5.1",
        lambda x: torch.multinomial((x.new_zeros(4, 2) + 1).t(), 1),
        lambda x: torch.multinomial(x.new_zeros(4, 2) + 1, 1),
    ),
}
