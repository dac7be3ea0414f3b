"""The pairs of reductions."""

from __future__ import annotations

import torch
from pairs import Pair

PAIRS = {
    "max-int64-1-13": Pair(
        "1.13.0", lambda x: x.new_zeros(4, dtype=torch.int64).max(), lambda x: x.new_zeros(4, dtype=torch.int32).max()
    ),
    "var-scalar-dim": Pair("2.8.0", lambda x: x.sum().var(dim=0), lambda x: x.var(dim=0)),
}
