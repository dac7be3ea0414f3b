"""Known wrong results and slow spots of a release of the plugin, by what a workload's graph has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mpsprobe.assembling import Tally
from mpsprobe.schemas import AdvisoryMatch, AffectedRange, AffectedSystems
from mpsprobe_tensorflow.findings import SITES_SHOWN, sites
from mpsprobe_tensorflow.placing.nodes import ARGUMENTS, Graph, Node
from mpsprobe_tensorflow.tables import releases, table
from mpsprobe_tensorflow.tables.releases import Advisory, all_advisories
from mpsprobe_tensorflow.tracing import Step

WRONG, SLOW = "wrong result", "slow"


def matches(step: Step, graph: Graph, release: str, tensorflow: str, phase: str) -> list[AdvisoryMatch]:
    """The known wrong results of ``release`` that ``graph`` has operators for, most called first.

    ``tensorflow``, the version that traced, counts where the plugin is installed too. Elsewhere it is any of those that
    go with ``release``.
    """
    found = [
        _match(advisory, step, nodes)
        for advisory in _of(release, tensorflow, phase, step.optimizer, WRONG)
        if (nodes := [node for node in graph.nodes if _concerned(advisory, node)])
    ]
    return sorted(found, key=lambda match: (-match.calls, match.id))


def slow(step: Step, release: str, tensorflow: str, phase: str) -> list[str]:
    """What is known to be slow, as notes on ``release``."""
    known = _of(release, tensorflow, phase, step.optimizer, SLOW)
    return [f"{one.title}. {one.workaround} ({', '.join(one.sources)})" for one in known]


def _of(release: str, tensorflow: str, phase: str, optimizer: str | None, kind: str) -> Iterable[Advisory]:
    versions: Sequence[str] = [tensorflow]
    fit = releases.fit_of(release)
    if table.installed() is None and fit is not None:
        versions = (*fit.documented, *fit.seen)
    for one in all_advisories():
        right = one.kind == kind and (not one.phases or phase in one.phases)
        right = right and (not one.optimizers or optimizer in one.optimizers)
        if right and any(one.concerns(release, version) for version in versions):
            yield one


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
        **{
            **tally.places(),
            "modules": [*tally.modules][:SITES_SHOWN],
            "call_sites": sites(step, nodes),
        },
    )
