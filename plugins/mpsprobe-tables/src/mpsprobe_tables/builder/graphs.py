"""Which kernels always compute with an MPSGraph, also where there are no elements: see ``flow``.

A kernel hands tensors to a graph as ``Placeholder`` (OperationUtils.h). Where no way through its code leads past making
one, every call does. ``Placeholder`` raises for a tensor whose buffer is empty, so a kernel that does not return early
for tensors without elements cannot take them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mpsprobe_coverage.kernels.kernel_facts import EMPTY, EMPTY_INPUTS, GRAPH
from mpsprobe_tables.builder.flow import Follower
from mpsprobe_tables.builder.flow_memory import Assumed, Frozen
from mpsprobe_tables.builder.following import Kernel

WITH_ELEMENTS = Assumed(same=True, metal_only=True)
WITHOUT_ELEMENTS = {
    EMPTY: Assumed(empty=True, filled=False, metal_only=True),
    EMPTY_INPUTS: Assumed(empty=True, metal_only=True),
}


def read_graphs(follower: Follower, kernels: Iterable[Kernel]) -> dict[str, frozenset[str]]:
    """Operator → ``GRAPH``, and on which tensors without elements it can only raise (``kernels/kernel_facts.py``)."""
    found = {}
    for kernel in kernels:
        every = kernel.handed([p for p in kernel.tensors if p.kind == "Tensor"])
        if _returns(follower, kernel, every, Assumed(same=True)) and not _returns(
            follower, kernel, every, WITH_ELEMENTS
        ):
            empty = kernel.handed(kernel.certain)
            without = (
                name
                for name, assumed in WITHOUT_ELEMENTS.items()
                if kernel.certain
                and not _returns(follower, kernel, empty, assumed)
                and _returns(follower, kernel, empty, replace(assumed, metal_only=False))
            )
            found[kernel.operator] = frozenset((GRAPH, *without))
    return found


def _returns(follower: Follower, kernel: Kernel, handed: tuple[Frozen, ...], assumed: Assumed) -> bool:
    follower.assumed = assumed
    return bool(follower.outcome(kernel.address, handed).returns)
