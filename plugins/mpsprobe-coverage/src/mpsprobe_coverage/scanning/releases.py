"""The whole report of each of many releases, from one workload that is built once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

from mpsprobe.environment import collect_environment
from mpsprobe.protocols import Progress, RunOptions, Workload
from mpsprobe.schemas import CoverageReport, MemoryPrediction
from mpsprobe_coverage.knowledge.chips.mac import Mac
from mpsprobe_coverage.knowledge.chips.store import GIB, all_chips
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.knowledge.memory.allocator import Figures
from mpsprobe_coverage.knowledge.memory.lifetimes import Event
from mpsprobe_coverage.knowledge.memory.mps_allocator import allocator_kind
from mpsprobe_coverage.knowledge.memory.timeline import Change, timeline
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.fitting import fits_on
from mpsprobe_coverage.reporting.memory import figures, needs_of, of_step, section
from mpsprobe_coverage.reporting.reports import single
from mpsprobe_coverage.scanning.garbage import collecting_only_new
from mpsprobe_coverage.scanning.scan import scanned
from mpsprobe_coverage.scanning.unknown_sizes import Again, Ran, predicted


@dataclass(frozen=True, slots=True)
class ReleaseAnswer:
    """What one release does with a workload.

    Attributes:
        report: as ``mpsprobe coverage --torch RELEASE`` gives it.
        fits: memory of a Mac in bytes → ``fits``, ``pressure``, ``raises``, ``unclear``; empty where nothing is known.
    """

    report: CoverageReport
    fits: dict[int, str]


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
    macs = [Mac(f"a Mac with {size // GIB} GB", size) for size in memory_sizes()]
    fits: dict[str, dict[int, str]] = {}
    replayed: dict[Hashable, tuple[Figures, dict[int, str]]] = {}
    latest: tuple[Sequence[Event], dict[Hashable, tuple[MemoryPrediction | None, dict[int, str]]]] = (), {}

    def needed(release: str, ran: Ran) -> MemoryPrediction | None:
        events = of_step(ran.events)
        line = timeline(events) if family.runs_on_macos else None
        if line is None or not line.peak:
            fits[release] = {}
            return None
        same = (allocator_kind(release), _as_numbers(line.changes))
        if same not in replayed:
            allocated = figures(line.changes, release)
            needs = needs_of(line, allocated, release)
            replayed[same] = allocated, {mac.memory: fits_on(mac, needs) for mac in macs}
        allocated, fit = replayed[same]
        fits[release] = fit
        return section(line, allocated, events, options.macos)

    def each(trace: Trace, again: Again) -> None:
        """Of the events nothing but this is needed: they are many, and often those of another release."""
        nonlocal latest
        release, (events, known) = trace.table.release, latest
        if trace.events is not events:
            known = {}
            latest = trace.events, known
        kind = allocator_kind(release)
        if kind in known:
            trace.memory, fits[release] = known[kind]
        else:
            trace.memory = predicted(trace, again, partial(needed, release))
            known[kind] = trace.memory, fits[release]
        trace.events = ()

    info, traces, since = scanned(workload, options, tables, progress, with_since=True, each=each)
    answers, environment = {}, collect_environment()
    with collecting_only_new() as begin_to_collect:
        begin_to_collect()
        for trace in traces:
            described = info.model_copy(update={"parameters": trace.parameters, "optimizer": trace.optimizer})
            report = single(described, options, trace, since if trace.failure is None else None, environment)
            answers[trace.table.release] = ReleaseAnswer(report, fits[trace.table.release])
    return answers


def _as_numbers(changes: Sequence[Change]) -> tuple[int, ...]:
    """What an allocator sees of them: which storage begins or ends, and how large it is."""
    numbers: dict[int, int] = {}
    found = []
    for change in changes:
        number = numbers.setdefault(id(change.storage), len(numbers))
        found += [number if change.begins else ~number, change.storage.nbytes]
    return tuple(found)
