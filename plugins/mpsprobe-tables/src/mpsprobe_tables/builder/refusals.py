"""Which dtypes the kernel of each operator refuses, read from its code: see ``flow``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from mpsprobe_coverage.kernels.kernel_facts import CAST, EVERY, SAME, Refusal
from mpsprobe_tables.builder.arguments import Parameter, parameters, read_schemas
from mpsprobe_tables.builder.flow import ARGUMENTS, RESULT_PLACE, Follower, Outcome, offset_of_dtype
from mpsprobe_tables.builder.flow_memory import Frozen, Pointed, tensor
from mpsprobe_tables.builder.flow_values import ALL, IDENTITY, SCALAR_TYPES, Known
from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.metal import KernelNames
from mpsprobe_tables.builder.stubs import Stubs

COPY, FLOAT32 = "aten::copy_", tensor(Known.FLOAT)
NOWHERE = re.compile(r"float64|complex128|q")  # dtypes that no release has on MPS at all
POSSIBLE = sum(1 << number for number, dtype in SCALAR_TYPES.items() if not NOWHERE.match(dtype))


def read_refusals(
    library: MachO, registered: Mapping[str, int], stubs: Stubs, kernels: KernelNames
) -> dict[str, frozenset[Refusal]]:
    """Operator → what it refuses, for those that refuse something.

    Args:
        registered: operator → the function that it registers for MPS.
        stubs, kernels: those of the library.
    """
    dtype_at = offset_of_dtype(library)
    if dtype_at is None:
        return {}
    set_stubs = {address: stubs.kernels[name] for address, name in stubs.names.items() if name in stubs.kernels}
    follower = Follower(library, dtype_at, set_stubs, kernels)
    schemas = read_schemas(library, registered.keys())
    found = {}
    for operator, address in sorted(registered.items()):
        schema = schemas.get(operator)
        if schema is not None:
            refused = _refused(follower, address, list(parameters(schema, library.symbol_at(address) or "")))
            if refused:
                found[operator] = refused
    casts = _casts(library, follower)
    if casts:
        found[COPY] = casts
    return found


def _casts(library: MachO, follower: Follower) -> frozenset[Refusal]:
    """What ``copy_`` refuses from MPS to MPS where the dtypes differ.

    Up to 2.12 it runs a graph (``copy_cast_mps``), since 2.13 a Metal kernel that is named after both dtypes
    (``copy_cast_kernel_mps`` calls ``exec_unary_kernel``, and that asks ``scalarToMetalTypeString`` for the names).
    """
    found = set()
    named = any(library.functions_named("20copy_cast_kernel_mpsERNS_6TensorE"))
    function = "23scalarToMetalTypeStringERKN3c1010ScalarTypeE" if named else "13copy_cast_mpsERNS_6TensorE"
    ways = ((Pointed(((0, 1, IDENTITY),)),),) if named else ((FLOAT32, tensor()), (tensor(), FLOAT32))
    for symbol, address in library.functions_named(function):
        if symbol.startswith("__ZN2at6native3mps") and ".cold." not in symbol:
            for handed in ways:
                outcome = follower.outcome(address, (*handed, *[None] * (ARGUMENTS - len(handed))))
                found |= set(_refusals(CAST, outcome, ~outcome.returns & POSSIBLE if outcome.returns else 0))
    return frozenset(found)


def _refused(follower: Follower, address: int, known: list[Parameter]) -> frozenset[Refusal]:
    tensors = [p for p in known if p.place is not None and p.kind in ("Tensor", "Optional[Tensor]")]
    inputs = [p for p in tensors if not p.is_out]
    certain = [p for p in inputs if p.kind == "Tensor"]
    outs = [p for p in tensors if p.is_out]
    follower.same = True
    most = follower.outcome(address, _handed(tensors, tensors))
    same = follower.outcome(address, _handed(tensors, [*certain, *outs])) if ~most.returns & POSSIBLE else most
    follower.same = False
    if not ~most.returns & POSSIBLE:  # where less is followed, nothing more is refused
        return frozenset()
    outcomes = {parameter.name: follower.outcome(address, _handed(tensors, [parameter])) for parameter in inputs}
    if len(certain) > 1:
        outcomes[EVERY] = follower.outcome(address, _handed(tensors, certain))
    outcomes[SAME] = same
    alone = ALL
    found = set()
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


def _handed(tensors: list[Parameter], followed: list[Parameter]) -> tuple[Frozen, ...]:
    handed: list[Frozen] = [None] * ARGUMENTS
    handed[RESULT_PLACE] = Pointed()
    for parameter in tensors:
        if parameter.place is not None and parameter.place < ARGUMENTS:
            if parameter in followed:
                handed[parameter.place] = tensor()
            elif parameter.kind == "Tensor":
                handed[parameter.place] = tensor(Known.OTHER)
    return tuple(handed)
