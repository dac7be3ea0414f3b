"""From where each operation is placed to the findings of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from mpsprobe.assembling import Tally, worst_first
from mpsprobe.schemas import SEVERITY, OperatorFinding, Transfers, Unjudged, Verdict
from mpsprobe_tensorflow.placing import crossing
from mpsprobe_tensorflow.placing.crossing import Border, Crossing
from mpsprobe_tensorflow.placing.kernels import GPU, Kernels
from mpsprobe_tensorflow.placing.nodes import ARGUMENTS, Graph, Node
from mpsprobe_tensorflow.placing.operators import definition
from mpsprobe_tensorflow.placing.placer import Placed
from mpsprobe_tensorflow.since import native_since
from mpsprobe_tensorflow.tracing import Step

SITES_SHOWN = 5
UNKNOWN = "the installed TensorFlow has no such operator: it comes from a library that registers its own"
IN_HOST_MEMORY = "the GPU's kernel works in host memory: the CPU computes it, and nothing is copied for it"
WITHOUT_XLA = "Do without jit_compile=True; Keras itself compiles grouped convolutions: use others (DepthwiseConv2D)."


@dataclass
class Judged:
    """One operation with its verdict."""

    verdict: Verdict
    reason: str | None = None
    evidence: str | None = None
    advice: str | None = None


@dataclass
class _Group:
    tally: Tally = field(default_factory=Tally)
    names: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    crossings: list[Crossing] = field(default_factory=list)


def findings(
    step: Step, graph: Graph, placed: Sequence[Placed | None], border: Border, kernels: Kernels, macos: str | None
) -> tuple[list[OperatorFinding], list[Unjudged]]:
    """One finding for each operator, verdict and reason, the worst first; and what has no verdict."""
    groups: dict[tuple[str, str, str | None, str | None, str | None], _Group] = {}
    for index, (node, one) in enumerate(zip(graph.nodes, placed, strict=True)):
        if node.operator in ARGUMENTS or node.inserted or one is None:
            continue
        judged = judge(node, one, kernels)
        key = (node.operator, judged.verdict, judged.reason, judged.evidence, judged.advice)
        _add(groups.setdefault(key, _Group()), step, graph, node, border.touching.get(index, ()))
    found = []
    for (operator, verdict, reason, evidence, advice), group in groups.items():
        shown = group.names[:SITES_SHOWN] if SEVERITY[verdict] else ()  # type: ignore[index]
        sites = dict.fromkeys(site for name in shown if (site := step.site(name)))
        found.append(
            OperatorFinding(
                operator=operator,
                verdict=verdict,  # type: ignore[arg-type]
                **{**group.tally.fields(), "call_sites": [*sites]},
                native_since=_native_since(verdict, group.nodes, kernels, macos),
                transfers=transfers(group.crossings) if group.crossings else None,
                reason=reason,
                source="registration" if verdict != "unknown" else None,
                evidence=evidence,
                advice=advice,
            )
        )
    unknown = [
        Unjudged(operator=one.operator, reason=UNKNOWN, calls=one.calls) for one in found if one.verdict == "unknown"
    ]
    return worst_first(found), unknown


def _native_since(verdict: str, nodes: Sequence[Node], kernels: Kernels, macos: str | None) -> str | None:
    """As ``native_since``; ``None`` for what is elsewhere by a rule although it has a kernel, in whatever release."""
    if verdict == "unknown" or (verdict != "native" and all(GPU in kernels.of(node) for node in nodes)):
        return None
    return native_since(nodes, macos)


def judge(node: Node, placed: Placed, kernels: Kernels) -> Judged:
    """The verdict of one operation."""
    if definition(node.operator) is None and not node.is_call:
        return Judged("unknown", UNKNOWN)
    if placed.device is None:
        advice = WITHOUT_XLA if node.jitted else None
        return Judged("unsupported", placed.why, _registered(node, kernels), advice)
    if placed.device != GPU:
        return Judged("fallback", *_fallback(node, placed, kernels))
    kernel = placed.kernel
    plain = [one for one in node.results if one.dtype not in crossing.ON_THE_HOST]
    if kernel is not None and plain and kernel.host and _all_in_host_memory(node, kernel.host):
        return Judged("native", IN_HOST_MEMORY)
    return Judged("native")


def transfers(crossings: Iterable[Crossing]) -> Transfers:
    """Counts and bytes, by direction."""
    counted: Counter[str] = Counter()
    for one in crossings:
        to = "to_gpu" if one.to_gpu else "to_cpu"
        counted[to] += one.times
        counted[f"{to}_bytes"] += one.times * (one.nbytes or 0)
    return Transfers(**counted)


def _add(group: _Group, step: Step, graph: Graph, node: Node, crossings: Iterable[Crossing]) -> None:
    read = []
    for value in node.inputs:
        results = graph.nodes[value.node].results
        if value.output < len(results):
            read.append(results[value.output])
    group.tally.add_place(node.times, step.phase(node.full_name), node.module or None, None)
    group.tally.add_tensors(
        node.times,
        [one.dtype for one in (read or node.results) if one.dtype != "resource"],
        ", ".join(map(_shape, (one.shape for one in read))),
        sum(crossing.nbytes(one.dtype, one.shape) or 0 for one in read),
        sum(crossing.nbytes(one.dtype, one.shape) or 0 for one in node.results),
    )
    group.nodes.append(node)
    group.names.append(node.name if not node.scope else node.scope.partition("/")[0])
    group.crossings += crossings


def _fallback(node: Node, placed: Placed, kernels: Kernels) -> tuple[str, str | None]:
    if GPU in kernels.of(node):
        return f"it is placed on the CPU: {placed.why}", None
    with_types = f" with {_types(node)}" if kernels.of_plugin(node.operator) else ""
    return f"the plugin has no kernel of {node.operator}{with_types}: it runs on the CPU", _registered(node, kernels)


def _registered(node: Node, kernels: Kernels) -> str | None:
    """The dtypes that the plugin has kernels for."""
    return _listed(node.operator, kernels)


@lru_cache(maxsize=1024)
def _listed(operator: str, kernels: Kernels) -> str | None:
    found = [
        ", ".join(f"{name}={'|'.join(sorted(allowed))}" for name, allowed in one.types.items()) or "any dtype"
        for one in kernels.of_plugin(operator)
    ]
    return f"registered: {'; '.join(dict.fromkeys(found))}" if found else None


def _types(node: Node) -> str:
    return ", ".join(f"{name}={'|'.join(types)}" for name, types in node.types.items()) or "these arguments"


def _all_in_host_memory(node: Node, host: frozenset[str]) -> bool:
    known = definition(node.operator)
    return known is not None and bool(known.output_arg) and all(one.name in host for one in known.output_arg)


def _shape(shape: tuple[int | None, ...] | None) -> str:
    if shape is None:
        return "?"
    return "x".join("?" if size is None else str(size) for size in shape) or "scalar"
