"""Operators that a release has under another name.

``copy_`` is composite, and on a device that it does not name it calls ``_copy_from`` (``ATen/native/Copy.cpp``).

In 1.12 ``linear`` called ``_mps_linear`` on MPS, and up to 1.13 ``max_pool2d`` called ``_mps_max_pool2d``; both
had derivatives of their own. Later the operators themselves got MPS kernels, and the torch that is
installed here knows only those. Registered under today's name, they are recorded under the release's.
``prelu`` went the other way: it had a kernel and a derivative in 1.13, and is composite since 2.0.
"""

from __future__ import annotations

from mpsprobe_coverage.knowledge.kernels.table import KernelTable

COPY = "aten::copy_"
# `is_supported_device` in `aten/src/ATen/native/Copy.cpp`: for these `copy_` computes.
COPIED_BY_TYPE = frozenset({"cpu", "cuda", "hip", "vulkan", "metal", "mps", "xpu"})
_THEN = {
    "aten::linear": "aten::_mps_linear",
    "aten::linear_backward": "aten::mps_linear_backward",
    "aten::max_pool2d": "aten::_mps_max_pool2d",
    "aten::max_pool2d_backward": "aten::mps_max_pool2d_backward",
    "aten::_prelu_kernel": "aten::prelu",
    "aten::_prelu_kernel_backward": "aten::prelu_backward",
}


def renames(table: KernelTable) -> dict[str, str]:
    """Name in the installed torch → what the release of ``table`` calls, where that has another name."""
    renamed = {now: then for now, then in _THEN.items() if now not in table.native and then in table.native}
    if table.verdict(COPY) == "composite" and table.backend.device not in COPIED_BY_TYPE:
        renamed[COPY] = "aten::_copy_from"
    return renamed
