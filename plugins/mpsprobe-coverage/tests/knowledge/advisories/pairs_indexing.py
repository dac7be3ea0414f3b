"""The pairs of indexing."""

from __future__ import annotations

import torch
from pairs import Function, Pair


def _scattered(*shape: int) -> Function:
    return lambda x: x.new_zeros(5).masked_scatter(x.new_zeros(5, dtype=torch.bool), x.new_zeros(shape))


PAIRS = {
    "masked-scatter-source": Pair("2.10.0", _scattered(2, 2), _scattered(4)),
    "isin-macos-13": Pair(
        "2.6.0", lambda x: torch.isin(x.new_zeros(4), x.new_zeros(2)), lambda x: x.new_zeros(4) == x.new_zeros(1)
    ),
}
