"""Tensors that no MPSGraph takes: without elements, or with a dimension of 2**31 or more.

Of kernels that make an operand of a graph in every call, as their code shows (``kernels/kernel_facts.py``).
``Placeholder`` (OperationUtils.mm) raises for a tensor whose buffer is empty, in every release. A dimension that does
not fit an int ends the process up to 2.8.0 and raises since (pytorch PR 158824).
"""

from __future__ import annotations

import torch

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import tensors_in
from mpsprobe_coverage.knowledge.judging.judgement import ENDS, Judgement, Rule, refused
from mpsprobe_coverage.knowledge.kernels.kernel_facts import EMPTY, EMPTY_INPUTS, GRAPH, facts_releases, load_facts
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import since_without_gap
from mpsprobe_coverage.knowledge.kernels.table import NATIVE, KernelTable

_INT_MAX = (1 << 31) - 1
_RAISES_SINCE = "2.9"
_TOO_LONG = "MPSGraph does not support tensor dims larger than INT_MAX"


def rules_of(operator: str, table: KernelTable) -> tuple[Rule, ...]:
    """The rules of one operator, if its kernel makes a graph in every call of some kind."""
    facts = load_facts(table.release).graphs.get(operator, frozenset())
    rules: list[Rule] = []
    if GRAPH in facts:
        rules.append(Rule("graphs", _long_dimension, (operator, table.at_least(_RAISES_SINCE))))
    if not facts.isdisjoint((EMPTY, EMPTY_INPUTS)):
        rules.append(Rule("graphs", _empty_inputs, (operator, EMPTY not in facts), (table.release,)))
    return tuple(rules)


def _long_dimension(call: Call, operator: str, raises: bool) -> Judgement | None:
    """A dimension of 2**31 or more; ``raises``: the release asks before it makes a graph."""
    if not any(size > _INT_MAX for spec in (*call.inputs, *call.outputs) for size in spec.shape):
        return None
    since = _since(operator, GRAPH)
    if raises:
        return refused(_TOO_LONG, since, evidence="the kernel always makes an operand of an MPSGraph")
    return refused(f"{ENDS}NDArray dimension length > INT_MAX", since, source="issue", evidence="pytorch PR 158824")


def _empty_inputs(call: Call, operator: str, with_result: bool, release: str) -> Judgement | None:
    """Inputs without elements; ``with_result``: only where no result is empty, as else the kernel may return early."""
    if not call.inputs or any(spec.numel for spec in call.inputs) or not call.outputs:
        return None
    if with_result and not all(spec.numel for spec in call.outputs):
        return None
    if any(_has_memory(tensor) for tensor in tensors_in((call.args, dict(call.kwargs)))):
        return None
    evidence = f"the kernel of torch {release} makes an operand of an MPSGraph before it returns"
    makes_one = (EMPTY, EMPTY_INPUTS) if all(spec.numel for spec in call.outputs) else (EMPTY,)
    return refused("Placeholder tensor is empty!", _since(operator, *makes_one), evidence=evidence)


def _has_memory(tensor: torch.Tensor) -> bool:
    """Whether an empty view may lie in a buffer that is not; under ``inference_mode`` views have no base."""
    base = tensor._base
    return tensor.is_inference() if base is None else base.numel() > 0


def _since(operator: str, *without: str) -> str | None:
    """The first release from which on the kernel is none of which one of these is known."""

    def takes(release: str) -> bool:
        facts = load_facts(release).graphs.get(operator, frozenset())
        return facts.isdisjoint(without) and load_table(release).verdict(operator) == NATIVE

    return since_without_gap(facts_releases(), takes)
