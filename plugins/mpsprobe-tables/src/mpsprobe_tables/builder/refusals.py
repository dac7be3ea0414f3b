"""Which dtypes the kernel of each operator refuses, read from its code: see ``flow``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mpsprobe_coverage.kernels.kernel_facts import EVERY, SAME, Refusal
from mpsprobe_tables.builder.arguments import Parameter, parameters, read_schemas
from mpsprobe_tables.builder.flow import ARGUMENTS, RESULT_PLACE, Follower, Outcome, offset_of_dtype
from mpsprobe_tables.builder.flow_memory import Frozen, Pointed, tensor
from mpsprobe_tables.builder.flow_values import ALL, SCALAR_TYPES, Known
from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.metal import KernelNames
from mpsprobe_tables.builder.stubs import Stubs

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
    return found


def _refused(follower: Follower, address: int, known: list[Parameter]) -> frozenset[Refusal]:
    tensors = [p for p in known if p.place is not None and p.kind in ("Tensor", "Optional[Tensor]")]
    inputs = [p for p in tensors if not p.is_out]
    certain = [p for p in inputs if p.kind == "Tensor"]
    outcomes = {parameter.name: follower.outcome(address, _handed(tensors, [parameter])) for parameter in inputs}
    if len(certain) > 1:
        outcomes[EVERY] = follower.outcome(address, _handed(tensors, certain))
    follower.same = True
    outcomes[SAME] = follower.outcome(address, _handed(tensors, [*certain, *(p for p in tensors if p.is_out)]))
    follower.same = False
    alone = ALL
    found = set()
    for name, outcome in outcomes.items():
        if not outcome.returns:  # registered only to raise
            return frozenset()
        refused = ~outcome.returns & POSSIBLE & (alone if name in (EVERY, SAME) else ALL)
        by_message: dict[str, set[str]] = {}
        for number, dtype in SCALAR_TYPES.items():
            if refused >> number & 1:
                by_message.setdefault(_said(outcome, number), set()).add(dtype)
        found |= {Refusal(name, frozenset(dtypes), message) for message, dtypes in by_message.items()}
        if name in (EVERY, *(p.name for p in certain)):
            alone &= outcome.returns
    return frozenset(found)


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
