"""From which release on is the whole workload native? Found with as few runs as possible.

A run on one release applies to every release that registers each operator it met in the same way, and whose judges
find each of its calls native: there the dispatcher decides the same. To judge the calls again nothing is run. Where a
release differs it may still be native, because it is made of other operators there (attention before 2.5.0), so the
workload is run once more, up to the first call that is not native. So it is where a route gets another answer, and on
newer releases, which may call what the run's does not have, wherever an operator goes on otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpsprobe.protocols import RunOptions
from mpsprobe_coverage.knowledge.calls.call import Calls
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.releases import since_without_gap
from mpsprobe_coverage.recording.dispatch import are_large
from mpsprobe_coverage.recording.recorder import CallRecord, NotNative
from mpsprobe_coverage.recording.release_questions import Asked
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.scanning.tracing import Tracer, chain_for


@dataclass(frozen=True)
class NativeRun:
    """A run in which everything was native."""

    chain: Chain  # the judges of its release
    calls: Calls  # one of each kind
    asked: Asked
    autocast: bool = False
    large: bool = False  # a convolution was of tensors with LARGE elements: which operator that calls depends on sizes


def first_native_release(tracer: Tracer, traces: Sequence[Trace]) -> str | None:
    """The first release from which on, without a gap up to the newest, the workload is native.

    ``traces`` of some releases are known; None where all of them ended early.
    """
    first = next((trace for trace in traces if trace.failure is None), None)
    if first is None or any(map(_is_refused, first.recorder.calls())):
        return None
    options, family, known = tracer.options, first.table.family, {trace.table.release: trace for trace in traces}
    if known.keys() >= set(family.releases):
        native = {release: _native_run(trace, options) is not None for release, trace in known.items()}
        return since_without_gap(family.releases, native.__getitem__)

    def again(release: str) -> NativeRun | None:
        try:
            return _native_run(known.get(release) or tracer.trace(family.load(release), only_native=True), options)
        except NotNative:
            return None

    def applies(native: NativeRun, release: str) -> bool:
        return applies_to(native, chain_for(family.load(release), options))

    return native_since(family.releases, again, applies, (first.table.release, _native_run(first, options)))


def _is_refused(record: CallRecord) -> bool:
    """Whether no release is known to take the call."""
    judgement = record.judgement
    return judgement.verdict == "unsupported" and judgement.accepted_since is None and judgement.needs_macos is None


def _native_run(trace: Trace, options: RunOptions) -> NativeRun | None:
    records = [*trace.recorder.calls()]
    if (
        trace.failure is not None
        or trace.asked is None
        or any(record.judgement.verdict != "native" for record in records)
    ):
        return None
    large = any("convolution" in record.operator and are_large((*record.inputs, *record.outputs)) for record in records)
    return NativeRun(chain_for(trace.table, options), trace.calls, trace.asked, bool(options.autocast), large)


def native_since(
    releases: Sequence[str],
    trace: Callable[[str], NativeRun | None],
    applies: Callable[[NativeRun, str], bool],
    known: tuple[str, NativeRun | None],
) -> str | None:
    """The first of ``releases``, the oldest first, from which on, without a gap up to the newest, all is native.

    ``trace`` runs the workload on a release, None if not all of it was native; ``applies`` says whether a run shows
    that another release is native too. ``known`` is a release that was run already, and what ``trace`` said.
    """
    run = known[1]

    def is_native(release: str) -> bool:
        nonlocal run
        if release == known[0] or run is None or not applies(run, release):
            run = known[1] if release == known[0] else trace(release)
        return run is not None

    return since_without_gap(releases, is_native)


def applies_to(run: NativeRun, chain: Chain) -> bool:
    """Whether all that ``run`` called is native on the release of ``chain`` too, and is called there."""
    if run.large or (run.autocast and chain.table.autocast_key not in chain.table.keys):
        return False
    if not run.asked.alike(chain):
        return False
    if chain.table.at_least(run.chain.table.release) and not all(
        run.asked.goes_on_alike(func, key, chain) for func, key in run.calls
    ):
        return False
    for (func, key), calls in run.calls.items():
        known, judges = run.chain.judges_of(func, key), chain.judges_of(func, key)
        if judges.registered.verdict != known.registered.verdict:
            return False
        if judges.rules != known.rules and any(judges.judge(call).verdict != "native" for call in calls):
            return False
    return True
