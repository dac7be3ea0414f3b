"""Operators that are registered for MPS, but whose DispatchStub has no kernel for it: "missing kernel for mps"."""

from __future__ import annotations

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, Rule, refused
from mpsprobe_coverage.knowledge.kernels.kernel_facts import facts_releases, load_facts
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import since_without_gap
from mpsprobe_coverage.knowledge.kernels.table import NATIVE, KernelTable


def rules_of(operator: str, table: KernelTable) -> tuple[Rule, ...]:
    """The rule of an operator that computes through stubs alone, none of which has a kernel for MPS."""
    names = ", ".join(sorted(load_facts(table.release).unset_stubs(operator)))
    return (Rule("stub", _refuse, (names,), (operator, table.release)),) if names else ()


def _refuse(call: Call, names: str, operator: str, release: str) -> Judgement | None:
    if any(spec.numel == 0 for spec in call.outputs):  # without elements an operator returns before it asks
        return None
    return refused(
        f"DispatchStub: missing kernel for mps ({names})",
        since_without_gap(facts_releases(), lambda release: _is_set(operator, release)),
        source="stub",
        evidence=f"nothing sets the MPS kernel of {names} in torch {release}",
    )


def _is_set(operator: str, release: str) -> bool:
    """Whether the operator has a kernel there, and lacks no stub."""
    return not load_facts(release).unset_stubs(operator) and load_table(release).verdict(operator) == NATIVE
