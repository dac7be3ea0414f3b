"""Which dtypes the kernel of each operator refuses, read from its code: see ``flow``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mpsprobe_coverage.knowledge.kernels.kernel_facts import CAST, EVERY, SAME, Refusal
from mpsprobe_tables.builder.flow import ARGUMENTS, Follower, Outcome
from mpsprobe_tables.builder.flow_memory import Assumed, Pointed, tensor
from mpsprobe_tables.builder.flow_values import ALL, IDENTITY, SCALAR_TYPES, Known
from mpsprobe_tables.builder.following import Kernel

COPY, FLOAT32 = "aten::copy_", tensor(Known.FLOAT)
NOWHERE = re.compile(r"float64|complex128|q")  # dtypes that no release has on MPS at all
POSSIBLE = sum(1 << number for number, dtype in SCALAR_TYPES.items() if not NOWHERE.match(dtype))


def read_refusals(follower: Follower, kernels: Iterable[Kernel]) -> dict[str, frozenset[Refusal]]:
    """Operator → what its kernel refuses, for those that refuse something."""
    found = {kernel.operator: _refused(follower, kernel) for kernel in kernels}
    found[COPY] = _casts(follower)
    return {operator: refusals for operator, refusals in found.items() if refusals}


def _casts(follower: Follower) -> frozenset[Refusal]:
    """What ``copy_`` refuses from MPS to MPS where the dtypes differ.

    Up to 2.12 it runs a graph (``copy_cast_mps``), since 2.13 a Metal kernel that is named after both dtypes
    (``copy_cast_kernel_mps`` calls ``exec_unary_kernel``, and that asks ``scalarToMetalTypeString`` for the names).
    """
    found: set[Refusal] = set()
    follower.assumed, library = Assumed(), follower.library
    named = any(library.functions_named("20copy_cast_kernel_mpsERNS_6TensorE"))
    function = "23scalarToMetalTypeStringERKN3c1010ScalarTypeE" if named else "13copy_cast_mpsERNS_6TensorE"
    ways = ((Pointed(((0, 1, IDENTITY),)),),) if named else ((FLOAT32, tensor()), (tensor(), FLOAT32))
    for symbol, address in library.functions_named(function):
        if symbol.startswith("__ZN2at6native3mps") and ".cold." not in symbol:
            for handed in ways:
                outcome = follower.outcome(address, (*handed, *[None] * (ARGUMENTS - len(handed))))
                found |= set(_refusals(CAST, outcome, ~outcome.returns & POSSIBLE if outcome.returns else 0))
    return frozenset(found)


def _refused(follower: Follower, kernel: Kernel) -> frozenset[Refusal]:
    address, certain = kernel.address, kernel.certain
    follower.assumed = Assumed(same=True, nonzero=kernel.scales)
    most = follower.outcome(address, kernel.handed(kernel.tensors))
    less = kernel.handed((*certain, *kernel.outs))
    same = follower.outcome(address, less) if ~most.returns & POSSIBLE else most
    follower.assumed = Assumed(nonzero=kernel.scales)
    if not ~most.returns & POSSIBLE:  # where less is followed, nothing more is refused
        return frozenset()
    outcomes = {parameter.name: follower.outcome(address, kernel.handed([parameter])) for parameter in kernel.inputs}
    if len(certain) > 1:
        outcomes[EVERY] = follower.outcome(address, kernel.handed(certain))
    outcomes[SAME] = same
    alone = ALL
    found: set[Refusal] = set()
    for name, outcome in outcomes.items():
        if not outcome.returns:  # registered only to raise
            return frozenset()
        refused = ~outcome.returns & POSSIBLE & (alone if name in (EVERY, SAME) else ALL)
        found |= set(_refusals(name, outcome, refused))
        if name in (EVERY, *(p.name for p in certain)):
            alone &= outcome.returns
    return frozenset(found)


def _refusals(name: str, outcome: Outcome, refused: int) -> Iterator[Refusal]:
    by_message: dict[str, set[str]] = {}
    for number, dtype in SCALAR_TYPES.items():
        if refused >> number & 1:
            by_message.setdefault(_said(outcome, number), set()).add(dtype)
    for message, dtypes in by_message.items():
        yield Refusal(name, frozenset(dtypes), message)


def _said(outcome: Outcome, number: int) -> str:
    """The one sentence with which dtype ``number`` is refused, and none that may go on is; or nothing."""
    said = [text for text, mask in outcome.messages if mask >> number & 1 and not mask & outcome.returns]
    return said[0] if len(said) == 1 else ""
