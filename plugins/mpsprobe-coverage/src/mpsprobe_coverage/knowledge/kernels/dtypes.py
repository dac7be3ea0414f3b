"""What a release does with tensors of a dtype on MPS: which it refuses, and which it can hold but not compute with.

Two things are read. What no tensor can have: 64-bit floating point and quantized dtypes in every release, others where
a marker says so. And with which dtypes a conversion on the device can only raise: a tensor of such a dtype can be made
and moved, until the first kernel needs a type of Metal or MPSGraph for it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mpsprobe_coverage.knowledge.kernels.kernel_facts import CAST, load_facts
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY, releases_marked
from mpsprobe_coverage.knowledge.kernels.releases import since_without_gap, torch_releases

MARKED: Mapping[str, str] = {"bfloat16_refused": "bfloat16"}
"""Marker → the dtype that releases with it refuse."""
CONVERSION = "aten::copy_"
"""What ``Tensor.to(dtype)`` calls for a tensor that is on the device."""

Use = Literal["computed", "held", "refused"]
"""``computed``: kernels take it. ``held``: a tensor can have it, and is not converted. ``refused``: no tensor can."""


@dataclass(frozen=True, slots=True)
class DtypeUse:
    use: Use
    since: str | None  # the release from which on, without a gap, it is `computed`; None if it is not in the newest
    reason: str = ""  # why it is not `computed`


@functools.cache
def dtype_use(name: str, release: str) -> DtypeUse:
    """What ``release``, one of ``torch_releases()``, does with the dtype that torch calls ``name``."""
    use, reason = _use(name, release)
    return DtypeUse(use, since_without_gap(torch_releases(), lambda other: _use(name, other)[0] == "computed"), reason)


def _use(name: str, release: str) -> tuple[Use, str]:
    if name in MPS_FAMILY.refused_dtypes:
        return "refused", MPS_FAMILY.refused_dtypes[name]
    if any(name == dtype and release in releases_marked(marker) for marker, dtype in MARKED.items()):
        return "refused", f"torch {release} refuses {name} on MPS"
    refusals = load_facts(release).refusals.get(CONVERSION, frozenset())
    if any(refusal.argument == CAST and name in refusal.dtypes for refusal in refusals):
        return "held", f"torch {release} cannot convert it on MPS"
    return "computed", ""
