"""Operators that an old release had under another name, with the same schema.

In 1.12 ``linear`` called ``_mps_linear`` on MPS, and up to 1.13 ``max_pool2d`` called ``_mps_max_pool2d``; both
had derivatives of their own. Later the operators themselves got MPS kernels, and the torch that is
installed here knows only those. Registered under today's name, they are recorded under the release's.
"""

from __future__ import annotations

from mpsprobe_coverage.kernels.table import KernelTable

_THEN = {
    "aten::linear": "aten::_mps_linear",
    "aten::linear_backward": "aten::mps_linear_backward",
    "aten::max_pool2d": "aten::_mps_max_pool2d",
    "aten::max_pool2d_backward": "aten::mps_max_pool2d_backward",
}


def renames(table: KernelTable) -> dict[str, str]:
    """Today's name → the name in the release of ``table``, for those that it has under the old one only."""
    return {now: then for now, then in _THEN.items() if now not in table.native and then in table.native}
