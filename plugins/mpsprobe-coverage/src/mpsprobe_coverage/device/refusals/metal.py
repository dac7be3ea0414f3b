"""Dtypes that an operator has no Metal kernel for: "Failed to create function state object for: hypot_dense_int_int".

Only operators whose kernel can compute in no other way are judged (``kernels/kernel_facts.py``), and of these only
calls where it is certain which dtype the name of the kernel is made from.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.refusals.call import Call, Rule
from mpsprobe_coverage.kernels.kernel_facts import CONVERTING, METAL_TYPES, KernelFacts, facts_releases, load_facts
from mpsprobe_coverage.kernels.table import KernelTable

_TYPE_OF = {getattr(torch, dtype): metal for metal, dtype in METAL_TYPES.items()}
_ARITY = {"unary": 1, "binary": 2, "ternary": 3}


@dataclass(frozen=True)
class ElementwiseKernel:
    """An operator that computes with Metal kernels by element, and the types that these are there for.

    Attributes:
        operands: how many tensors the kernel reads.
        types: the Metal types of its input, marked as in ``KernelFacts.kernels``.
        names: the operations of the kernels (``exp``).
        operator, release: what the rule is about.
    """

    operands: int
    types: frozenset[str]
    names: tuple[str, ...] = field(compare=False)
    operator: str = field(compare=False)
    release: str = field(compare=False)

    @cached_property
    def dtypes(self) -> frozenset[torch.dtype]:
        """The dtypes without a kernel that reads them as they are."""
        return frozenset(dtype for dtype, metal in _TYPE_OF.items() if metal not in self.types)

    def __call__(self, call: Call) -> Refusal | None:
        if any(spec.numel == 0 for spec in call.outputs):  # nothing to compute: no kernel is asked for
            return None
        dtypes = _operands(call)
        if dtypes is None or len(dtypes) != self.operands:
            return None
        wanted = _wanted(dtypes, call)
        if not wanted or not self.types.isdisjoint(wanted):
            return None
        said = " and ".join(dict.fromkeys(_said(dtype) for dtype in dtypes))
        return Refusal(
            f"no Metal kernel '{' or '.join(self.names)}' for {said}",
            _taken_since(self.operator, self.release, self.operands, wanted),
            source="metal",
            evidence=f"torch {self.release} has it for {self._listed()}",
        )

    def _listed(self) -> str:
        return ", ".join(sorted(METAL_TYPES[metal] for metal in self.types if metal in METAL_TYPES))


def rules(table: KernelTable) -> dict[str, tuple[Rule, ...]]:
    """A rule for each operator whose Metal kernels are known."""
    facts = load_facts(table.release) if table.library == "torch" else None
    if facts is None:
        return {}
    made = {operator: _rule(operator, facts) for operator in facts.operators}
    return {operator: (rule,) for operator, rule in made.items() if rule is not None}


def _rule(operator: str, facts: KernelFacts) -> ElementwiseKernel | None:
    operations = facts.operations(operator)
    if len(operations) != 1:
        return None
    [(kind, names)] = operations.items()
    operands = _ARITY.get(kind)
    if operands is None:
        return None
    types = frozenset[str]().union(*(facts.kernels[name] for name in names))
    return ElementwiseKernel(operands, types, tuple(sorted(names)), operator, facts.release)


def _operands(call: Call) -> tuple[torch.dtype, ...] | None:
    """Dtypes of the tensors that the kernel reads; None when a plain number stands in the place of one."""
    dtypes = []
    for argument in call.func._schema.arguments:
        if argument.is_out:
            continue
        value: Any = call.argument(argument.name)
        if isinstance(value, torch.Tensor):
            dtypes.append(value.dtype)
        elif isinstance(value, (bool, int, float, complex)) and str(argument.type) == "Tensor":
            return None
    return tuple(dtypes)


def _wanted(dtypes: tuple[torch.dtype, ...], call: Call) -> frozenset[str]:
    """The Metal types one of which a kernel must read, marked where it must also convert; empty: not known."""
    if not dtypes or any(dtype not in _TYPE_OF for dtype in dtypes):
        return frozenset()
    if len(set(dtypes)) == 1:
        return frozenset({_TYPE_OF[dtypes[0]]})
    if len(dtypes) != 2 or len(call.outputs) != 1:
        return frozenset()
    # Operands of two dtypes meet in a third, which the kernel is named after; or in that of the result.
    common = {torch.promote_types(*dtypes), *dtypes, call.outputs[0].dtype}
    types = {_TYPE_OF[dtype] for dtype in common if dtype in _TYPE_OF}
    return frozenset(types | {CONVERTING + metal for metal in types})


@functools.cache
def _taken_since(operator: str, release: str, operands: int, wanted: frozenset[str]) -> str | None:
    """The first release after ``release`` from which on each release is known to have such a kernel."""
    since = None
    for later in reversed(facts_releases()):
        facts = load_facts(later)
        rule = None if later == release or facts is None else _rule(operator, facts)
        if rule is None or rule.operands != operands or rule.types.isdisjoint(wanted):
            break
        since = later
    return since


def _said(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
