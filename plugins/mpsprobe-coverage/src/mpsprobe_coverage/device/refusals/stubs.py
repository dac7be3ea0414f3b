"""Operators that are registered for MPS, but whose DispatchStub has no kernel for it: "missing kernel for mps"."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.refusals.call import Call, Rule
from mpsprobe_coverage.kernels.kernel_facts import facts_releases, load_facts
from mpsprobe_coverage.kernels.store import load_table
from mpsprobe_coverage.kernels.table import NATIVE, KernelTable


@dataclass(frozen=True)
class UnsetStub:
    """An operator that computes through stubs alone, none of which has a kernel for MPS.

    Attributes:
        names: of the stubs.
        operator, release: what the rule is about.
    """

    names: tuple[str, ...]
    operator: str = field(compare=False)
    release: str = field(compare=False)

    @property
    def dtypes(self) -> frozenset[torch.dtype] | None:
        return None

    def __call__(self, call: Call) -> Refusal | None:
        if any(spec.numel == 0 for spec in call.outputs):  # without elements an operator returns before it asks
            return None
        names = ", ".join(self.names)
        return Refusal(
            f"DispatchStub: missing kernel for mps ({names})",
            _set_since(self.operator, self.release),
            source="stub",
            evidence=f"nothing sets the MPS kernel of {names} in torch {self.release}",
        )


def rules(table: KernelTable) -> dict[str, tuple[Rule, ...]]:
    """A rule for each operator that needs a stub without a kernel."""
    facts = load_facts(table.release) if table.library == "torch" else None
    if facts is None:
        return {}
    unset = {operator: tuple(sorted(facts.unset_stubs(operator))) for operator in facts.operators}
    return {operator: (UnsetStub(names, operator, table.release),) for operator, names in unset.items() if names}


def rules_of(operator: str, table: KernelTable) -> tuple[Rule, ...]:
    """The rule of one operator, if there is one."""
    facts = load_facts(table.release) if table.library == "torch" else None
    names = tuple(sorted(facts.unset_stubs(operator))) if facts is not None and operator in facts.operators else ()
    return (UnsetStub(names, operator, table.release),) if names else ()


def _set_since(operator: str, release: str) -> str | None:
    """The first release after ``release`` from which on the operator has a kernel and lacks no stub."""
    since = None
    for later in reversed(facts_releases()):
        facts = load_facts(later)
        if later == release or facts is None or facts.unset_stubs(operator):
            break
        if load_table(later).verdict(operator) != NATIVE:
            break
        since = later
    return since
