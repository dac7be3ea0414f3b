"""Known wrong results and slow spots of a release of the plugin, by what a workload's graph has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mpsprobe.schemas import AdvisoryMatch, AffectedRange, AffectedSystems
from mpsprobe_tensorflow import releases
from mpsprobe_tensorflow.placing.nodes import ARGUMENTS, Graph, Node
from mpsprobe_tensorflow.tables import fits
from mpsprobe_tensorflow.tables.advisories import Advisory, all_advisories
from mpsprobe_tensorflow.tracing import Step

WRONG, SLOW = "wrong result", "slow"
SITES_SHOWN = 5


def matches(step: Step, graph: Graph, release: str, tensorflow: str, phase: str) -> list[AdvisoryMatch]:
    """The known wrong results of ``release`` that ``graph`` has operators for, most called first.

    Args:
        tensorflow: the version that traced, which counts where the plugin is installed too. Elsewhere it is any of
            those that go with ``release``.
        phase: ``inference`` or ``training``.
    """
    found = []
    for one in _of(release, tensorflow, phase, step.optimizer, WRONG):
        nodes = [node for node in graph.nodes if _concerned(one, node)]
        if nodes:
            found.append(_match(one, step, nodes))
    return sorted(found, key=lambda match: (-match.calls, match.id))


def slow(step: Step, release: str, tensorflow: str, phase: str) -> list[str]:
    """What is known to be slow, as notes on ``release``."""
    known = _of(release, tensorflow, phase, step.optimizer, SLOW)
    return [f"{one.title}. {one.workaround} ({', '.join(one.sources)})" for one in known]


def _of(release: str, tensorflow: str, phase: str, optimizer: str | None, kind: str) -> Iterable[Advisory]:
    versions: Sequence[str] = [tensorflow]
    if releases.installed() is None:
        fit = fits.fit_of(release)
        versions = (*fit.documented, *fit.seen) if fit is not None else versions
    for one in all_advisories():
        right = one.kind == kind and (not one.phases or phase in one.phases)
        right = right and (not one.optimizers or optimizer in one.optimizers)
        if right and any(one.concerns(release, version) for version in versions):
            yield one


def _concerned(one: Advisory, node: Node) -> bool:
    if node.operator in ARGUMENTS or node.inserted or (one.operators and node.operator not in one.operators):
        return False
    if not one.channels_over:
        return True
    shape = node.results[0].shape if node.results else None
    return shape is not None and any((size or 0) > one.channels_over for size in shape[-1:])  # as Keras has channels


def _match(one: Advisory, step: Step, nodes: Sequence[Node]) -> AdvisoryMatch:
    phases: Counter[str] = Counter()
    for node in nodes:
        phases[step.phase(node.full_name)] += node.times
    names = (node.name if not node.scope else node.scope.partition("/")[0] for node in nodes)
    sites = dict.fromkeys(site for name in list(names)[:SITES_SHOWN] if (site := step.site(name)))
    known = list(one.releases)
    return AdvisoryMatch(
        id=one.id,
        title=one.title,
        condition=one.condition,
        symptom=one.symptom,
        workaround=one.workaround,
        torch=AffectedRange(seen=known, open=True) if known else AffectedRange(),
        macos=AffectedSystems(),
        sources=list(one.sources),
        operators=sorted({node.operator for node in nodes}),
        calls=phases.total(),
        phases=dict(phases),
        modules=list(dict.fromkeys(module for node in nodes if (module := node.module)))[:SITES_SHOWN],
        call_sites=list(sites),
    )
