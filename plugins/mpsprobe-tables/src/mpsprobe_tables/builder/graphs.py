"""Which kernels always compute with an MPSGraph, also where there are no elements (see ``flow``), and which may.

A kernel hands tensors to a graph as ``Placeholder`` (OperationUtils.h). Where no way through its code leads past making
one, every call does. ``Placeholder`` raises for a tensor whose buffer is empty, so a kernel that does not return early
for tensors without elements cannot take them. Which kernels can reach a graph at all, ``callgraph`` knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from mpsprobe_coverage.knowledge.kernels.kernel_facts import EMPTY, EMPTY_INPUTS, GRAPH, MAY
from mpsprobe_tables.builder.arguments import Parameter
from mpsprobe_tables.builder.flow import Follower
from mpsprobe_tables.builder.flow_memory import Assumed
from mpsprobe_tables.builder.following import Kernel

WITHOUT_ELEMENTS = ((EMPTY, Assumed(empty=True, filled=False)), (EMPTY_INPUTS, Assumed(empty=True)))


def read_graphs(follower: Follower, kernels: Iterable[Kernel]) -> dict[str, frozenset[str]]:
    """Operator → whether it always makes an operand, and whether it does of which tensors without elements.

    What the labels mean is said in ``kernels/kernel_facts.py``.
    """
    found = {}
    for kernel in kernels:
        labels = {GRAPH} if _makes(follower, kernel, [*kernel.certain, *kernel.outs], Assumed(same=True)) else set()
        without = (name for name, assumed in WITHOUT_ELEMENTS if _makes(follower, kernel, kernel.certain, assumed))
        labels |= set(islice(without, 1)) if kernel.certain else set()
        if labels:
            found[kernel.operator] = frozenset(labels)
    return found


def with_reached(graphs: Mapping[str, frozenset[str]], reached: Iterable[str]) -> dict[str, frozenset[str]]:
    """``graphs`` and the operators of ``reached``, whose code can reach a graph: those that need not go there may."""
    may = {one: graphs.get(one, frozenset()) | {MAY} for one in reached if GRAPH not in graphs.get(one, ())}
    return {**graphs, **may}


def _makes(follower: Follower, kernel: Kernel, followed: Sequence[Parameter], assumed: Assumed) -> bool:
    """Whether it can return, but not without making an operand of a graph."""
    handed = kernel.handed(followed)
    assumed = replace(assumed, nonzero=kernel.scales)
    follower.assumed = replace(assumed, metal_only=True)
    if follower.outcome(kernel.address, handed).returns:
        return False
    follower.assumed = assumed
    return bool(follower.outcome(kernel.address, handed).returns)
