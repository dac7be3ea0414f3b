"""The whole report of each of many releases, from one workload that is built once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import NamedTuple

from mpsprobe.environment import collect_environment
from mpsprobe.protocols import Progress, RunOptions, Workload
from mpsprobe.schemas import CoverageReport, MemoryFit, MemoryPrediction
from mpsprobe_coverage.knowledge.chips.mac import Mac
from mpsprobe_coverage.knowledge.chips.store import GIB, all_chips
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.knowledge.memory.lifetimes import Event
from mpsprobe_coverage.knowledge.memory.mps_allocator import allocator_kind
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.fitting import Needs, fit_on
from mpsprobe_coverage.reporting.memory import prediction
from mpsprobe_coverage.reporting.reports import single
from mpsprobe_coverage.scanning.scan import scanned
from mpsprobe_coverage.scanning.unknown_sizes import Again, predicted

Fits = dict[int, str]
"""Memory of a Mac in bytes → ``fits``, ``pressure``, ``raises``, ``unclear``; empty where nothing is known."""


class ReleaseAnswer(NamedTuple):
    """What one release does with a workload; ``report`` is as ``mpsprobe coverage --torch RELEASE`` gives it."""

    report: CoverageReport
    fits: Fits


def memory_sizes() -> list[int]:
    """The sizes of memory that Macs were sold with, in bytes, the smallest first."""
    return sorted({size * GIB for chip in all_chips().values() for size in chip.memory_gib})


def release_answers(
    workload: Workload, options: RunOptions, torch_releases: Sequence[str], progress: Progress
) -> dict[str, ReleaseAnswer]:
    """What each of ``torch_releases`` does with ``workload``, by release.

    Raises:
        MpsprobeError: the workload cannot be built, or a table cannot be read.
    """
    family = family_named(options.backend)
    tables = [family.target(release) for release in torch_releases]
    fits: dict[str, Fits] = {}
    last_events: Sequence[Event] = ()
    by_allocator: dict[Hashable, tuple[MemoryPrediction | None, Fits]] = {}  # of the run that has these events

    def predict(release: str, trace: Trace) -> MemoryPrediction | None:
        def of_sizes(needs: Needs, events: Sequence[Event]) -> Sequence[MemoryFit]:
            fits[release] = {size: fit_on(Mac("", size), needs).answer for size in memory_sizes()}
            return ()

        fits[release] = {}
        return prediction(trace.events, release, options.macos, of_sizes) if family.runs_on_macos else None

    def memory(trace: Trace, again: Again) -> MemoryPrediction | None:
        nonlocal last_events
        release = trace.table.release
        kind = allocator_kind(release)
        if trace.events is not last_events:
            last_events = trace.events
            by_allocator.clear()
        if kind not in by_allocator:
            by_allocator[kind] = predicted(trace, again, partial(predict, release)), fits[release]
        section, fits[release] = by_allocator[kind]
        return section

    info, traces, since = scanned(workload, options, tables, progress, memory, with_since=True)
    answers, environment = {}, collect_environment()
    for trace in traces:
        described = info.model_copy(update={"parameters": trace.parameters, "optimizer": trace.optimizer})
        report = single(described, options, trace, since if trace.failure is None else None, environment)
        answers[trace.table.release] = ReleaseAnswer(report, fits[trace.table.release])
    return answers
