"""From where each operation is placed to the findings of a report; what is known to be wrong or slow of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from mpsprobe.assembling import Tally, worst_first
from mpsprobe.schemas import (
    SEVERITY,
    AdvisoryMatch,
    AffectedRange,
    AffectedSystems,
    OperatorFinding,
    Transfers,
    Unjudged,
    Verdict,
)
from mpsprobe_tensorflow.placing import crossing
from mpsprobe_tensorflow.placing.crossing import Border, Crossing
from mpsprobe_tensorflow.placing.kernels import GPU, Kernels, definition, native_since
from mpsprobe_tensorflow.placing.nodes import ARGUMENTS, Graph, Node
from mpsprobe_tensorflow.placing.placer import Placed
from mpsprobe_tensorflow.tables import releases, table
from mpsprobe_tensorflow.tables.releases import Advisory, all_advisories
from mpsprobe_tensorflow.tracing import Step

SITES_SHOWN = 5
UNKNOWN = "the installed TensorFlow has no such operator: it comes from a library that registers its own"
IN_HOST_MEMORY = "the GPU's kernel works in host memory: the CPU computes it, and nothing is copied for it"
WRONG, SLOW = "wrong result", "slow"
WITHOUT_XLA = "Do without jit_compile=True; Keras itself compiles grouped convolutions: use others (DepthwiseConv2D)."


class Judged(NamedTuple):
    """The verdict of one operation."""

    verdict: Verdict
    reason: str | None = None
    evidence: str | None = None
    advice: str | None = None


@dataclass
class _Group:
    tally: Tally = field(default_factory=Tally)
    nodes: list[Node] = field(default_factory=list)
    crossings: list[Crossing] = field(default_factory=list)


def findings(
    step: Step, graph: Graph, placed: Sequence[Placed | None], border: Border, kernels: Kernels, macos: str | None
) -> tuple[list[OperatorFinding], list[Unjudged]]:
    """One finding for each operator, verdict and reason, the worst first; and what has no verdict."""
    groups: dict[tuple[str, Judged], _Group] = {}
    for index, (node, placement) in enumerate(zip(graph.nodes, placed, strict=True)):
        if node.operator in ARGUMENTS or node.inserted or placement is None:
            continue
        group = groups.setdefault((node.operator, _judged(node, placement, kernels)), _Group())
        _add(group, step, graph, node)
        group.crossings += border.touching.get(index, ())
    operators = [
        OperatorFinding(
            operator=operator,
            **judged._asdict(),
            **(group.tally.fields() | {"call_sites": sites(step, group.nodes) if SEVERITY[judged.verdict] else []}),
            native_since=_native_since(judged.verdict, group.nodes, kernels, macos),
            transfers=transfers(group.crossings) if group.crossings else None,
            source="registration" if judged.verdict != "unknown" else None,
        )
        for (operator, judged), group in groups.items()
    ]
    unknown = [
        Unjudged(operator=operator.operator, reason=UNKNOWN, calls=operator.calls)
        for operator in operators
        if operator.verdict == "unknown"
    ]
    return worst_first(operators), unknown


def sites(step: Step, nodes: Iterable[Node]) -> list[str]:
    """Where in the source the first of ``nodes`` are made; of one in a function where that is called."""
    names = [node.scope.partition("/")[0] if node.scope else node.name for node in nodes][:SITES_SHOWN]
    return list(dict.fromkeys(site for name in names if (site := step.site(name))))


def _native_since(verdict: str, nodes: Sequence[Node], kernels: Kernels, macos: str | None) -> str | None:
    """As ``native_since``; ``None`` for what is elsewhere by a rule although it has a kernel, in whatever release."""
    if verdict == "unknown" or (verdict != "native" and all(GPU in kernels.of(node) for node in nodes)):
        return None
    return native_since(nodes, macos)


def _judged(node: Node, placed: Placed, kernels: Kernels) -> Judged:
    known = definition(node.operator)
    if known is None and not node.is_call:
        return Judged("unknown", UNKNOWN)
    if placed.device is None:
        return Judged(
            "unsupported", placed.why, _registered(node.operator, kernels), WITHOUT_XLA if node.jitted else None
        )
    if placed.device != GPU:
        return _fallback(node, placed, kernels)
    host = placed.kernel.host if placed.kernel is not None else frozenset()
    if host and any(result.dtype not in crossing.ON_THE_HOST for result in node.results):
        outputs = known.output_arg if known is not None else ()
        if outputs and all(output.name in host for output in outputs):
            return Judged("native", IN_HOST_MEMORY)
    return Judged("native")


def _fallback(node: Node, placed: Placed, kernels: Kernels) -> Judged:
    if GPU in kernels.of(node):
        return Judged("fallback", f"it is placed on the CPU: {placed.why}")
    types = ", ".join(f"{name}={'|'.join(types)}" for name, types in node.types.items()) or "these arguments"
    with_types = f" with {types}" if kernels.of_plugin(node.operator) else ""
    reason = f"the plugin has no kernel of {node.operator}{with_types}: it runs on the CPU"
    return Judged("fallback", reason, _registered(node.operator, kernels))


@lru_cache(maxsize=1024)
def _registered(operator: str, kernels: Kernels) -> str | None:
    """The dtypes that the plugin has kernels for."""
    listed = [
        ", ".join(f"{name}={'|'.join(sorted(allowed))}" for name, allowed in kernel.types.items()) or "any dtype"
        for kernel in kernels.of_plugin(operator)
    ]
    return f"registered: {'; '.join(dict.fromkeys(listed))}" if listed else None


def transfers(crossings: Iterable[Crossing]) -> Transfers:
    """Counts and bytes, by direction."""
    counted: Counter[str] = Counter()
    for crossed in crossings:
        to = "to_gpu" if crossed.to_gpu else "to_cpu"
        counted[to] += crossed.times
        counted[f"{to}_bytes"] += crossed.times * (crossed.nbytes or 0)
    return Transfers(**counted)


def _add(group: _Group, step: Step, graph: Graph, node: Node) -> None:
    read = [
        graph.nodes[value.node].results[value.output]
        for value in node.inputs
        if value.output < len(graph.nodes[value.node].results)
    ]
    group.nodes.append(node)
    group.tally.add_place(node.times, step.phase(node.full_name), node.module, None)
    group.tally.add_tensors(
        node.times,
        [tensor.dtype for tensor in (read or node.results) if tensor.dtype != "resource"],
        ", ".join(_shape(tensor.shape) for tensor in read),
        sum(crossing.nbytes(tensor.dtype, tensor.shape) or 0 for tensor in read),
        sum(crossing.nbytes(tensor.dtype, tensor.shape) or 0 for tensor in node.results),
    )


def _shape(shape: tuple[int | None, ...] | None) -> str:
    if shape is None:
        return "?"
    return "x".join("?" if size is None else str(size) for size in shape) or "scalar"


def matches(step: Step, graph: Graph, release: str, tensorflow: str, phase: str) -> list[AdvisoryMatch]:
    """The known wrong results of ``release`` that ``graph`` has operators for, most called first.

    ``tensorflow``, the version that traced, counts where the plugin is installed too. Elsewhere it is any of those that
    go with ``release``.
    """
    found_matches = [
        _match(advisory, step, nodes)
        for advisory in _of(release, tensorflow, phase, step.optimizer, WRONG)
        if (nodes := [node for node in graph.nodes if _concerned(advisory, node)])
    ]
    return sorted(found_matches, key=lambda match: (-match.calls, match.id))


def slow(step: Step, release: str, tensorflow: str, phase: str) -> list[str]:
    """What is known to be slow, as notes on ``release``."""
    known = _of(release, tensorflow, phase, step.optimizer, SLOW)
    return [f"{advisory.title}. {advisory.workaround} ({', '.join(advisory.sources)})" for advisory in known]


def _of(release: str, tensorflow: str, phase: str, optimizer: str | None, kind: str) -> Iterable[Advisory]:
    fit = releases.fit_of(release)
    elsewhere = table.installed() is None and fit is not None
    versions = [*fit.documented, *fit.seen] if elsewhere and fit is not None else [tensorflow]
    for advisory in all_advisories():
        right = advisory.kind == kind and (not advisory.phases or phase in advisory.phases)
        right = right and (not advisory.optimizers or optimizer in advisory.optimizers)
        if right and any(advisory.concerns(release, version) for version in versions):
            yield advisory


def _concerned(advisory: Advisory, node: Node) -> bool:
    if node.operator in ARGUMENTS or node.inserted:
        return False
    if advisory.operators and node.operator not in advisory.operators:
        return False
    if not advisory.channels_over:
        return True
    shape = node.results[0].shape if node.results else None
    return shape is not None and any((size or 0) > advisory.channels_over for size in shape[-1:])  # as Keras has them


def _match(advisory: Advisory, step: Step, nodes: Sequence[Node]) -> AdvisoryMatch:
    tally = Tally()
    for node in nodes:
        tally.add_place(node.times, step.phase(node.full_name), node.module, None)
    return AdvisoryMatch(
        **{name: getattr(advisory, name) for name in ("id", "title", "condition", "symptom", "workaround", "sources")},
        torch=AffectedRange(seen=advisory.releases, open=True) if advisory.releases else AffectedRange(),
        macos=AffectedSystems(),
        operators=sorted({node.operator for node in nodes}),
        **(tally.places() | {"modules": [*tally.modules][:SITES_SHOWN], "call_sites": sites(step, nodes)}),
    )
