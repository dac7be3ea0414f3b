"""A workload → one report, for one torch release or for many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple, Self

import torch

from mpsprobe.assembling import matrix_of
from mpsprobe.environment import collect_environment
from mpsprobe.errors import UsageError
from mpsprobe.protocols import Progress, RunOptions, Workload
from mpsprobe.schemas import SEVERITY, CoverageReport, MemoryFit, MemoryPrediction, Report, Verdict, WorkloadInfo
from mpsprobe.stepping import optimizer_name, workload_info
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.chips.limits import Mac, mac_asked
from mpsprobe_coverage.knowledge.chips.store import GIB, all_chips
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.knowledge.kernels.compositions import composition_releases
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.knowledge.memory.allocator import allocator_kind
from mpsprobe_coverage.knowledge.memory.lifetimes import Event
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.findings import moves_elsewhere
from mpsprobe_coverage.reporting.fitting import Needs, fit_on
from mpsprobe_coverage.reporting.memory import prediction
from mpsprobe_coverage.reporting.reports import check_macos, memory_of, single
from mpsprobe_coverage.scanning import step
from mpsprobe_coverage.scanning.process_state import collecting_only_new
from mpsprobe_coverage.scanning.since import first_native_release
from mpsprobe_coverage.scanning.tracing import Tracer, built, chain_for
from mpsprobe_coverage.scanning.unknown_sizes import Again, predicted

PHASE = "forward"  # of what an open device runs
OF_MACS = {"macos": "a version of macOS", "chip": "a chip of Macs", "memory": "the memory of a Mac"}


class OpenDevice(ExitStack):
    """The virtual device, open, for code that calls torch itself: see ``mpsprobe_devkit.testing.OpenDevice``."""

    def __init__(self, table: KernelTable) -> None:
        super().__init__()
        self.release = table.release
        self.name = table.backend.device
        self._device = VirtualDevice(chain_for(table, RunOptions()))

    def __enter__(self) -> Self:
        self.enter_context(self._device)
        return self

    def run(self, function: Callable[..., Any], *arguments: Any, phase: str = PHASE, **named: Any) -> Any:
        if isinstance(function, torch.nn.Module):
            function = self.move(function)
        moved, also = self.move(arguments), self.move(named)
        with self._device.recording(phase):
            return function(*moved, **also)

    def move(self, value: Any) -> Any:
        return self._device.move(value)

    def construction(self) -> AbstractContextManager[Any]:
        return self._device.construction()

    def verdicts(self) -> dict[str, Verdict]:
        worst: dict[str, Verdict] = {}
        for record in self._device.recorder.calls():
            verdict = record.judgement.verdict
            worst[record.operator] = max(worst.get(record.operator, verdict), verdict, key=SEVERITY.__getitem__)
        return worst

    def calls(self) -> dict[str, int]:
        calls: Counter[str] = Counter()
        for record in self._device.recorder.calls():
            calls[record.operator] += record.calls
        return dict(calls)

    def reasons(self) -> dict[str, str]:
        worst = self.verdicts()
        reasons = {}
        for record in self._device.recorder.calls():
            if record.judgement.reason is not None and record.judgement.verdict == worst[record.operator]:
                reasons[record.operator] = record.judgement.reason
        return reasons

    def not_judged(self) -> dict[str, str]:
        return {note.operator: note.text for note in self._device.recorder.not_judged()}


class CoverageScanner:
    """Predicts coverage; see ``docs/explanation/virtual-device.md`` for how, and how far to trust it."""

    def scan(
        self, workload: Workload, options: RunOptions, torch_releases: Sequence[str], progress: Progress
    ) -> Report:
        """See ``mpsprobe.protocols.Scanner``.

        ``installed`` as a release asks the live dispatcher on a build with MPS, and means the installed release's table
        elsewhere. A model that raises while it runs is no error here: the report has the operators before it, and
        ``failure``.
        """
        family = family_named(options.backend)
        tables = [family.target(release) for release in torch_releases]
        if not tables:
            raise UsageError("no torch release to judge")
        for flag, what in OF_MACS.items():
            if getattr(options, flag) and not family.runs_on_macos:
                raise UsageError(f"{what} says nothing about {family.backend.label}", f"Leave --{flag} out.")
        mac_asked(options)
        for table in tables if options.macos else ():
            check_macos(options.macos or "", table)
        several = len(tables) > 1
        memory = partial(predicted, predict=partial(memory_of, options=options), ranged=not several)
        info, traces, since = scanned(workload, options, tables, progress, memory, with_since=not several)
        environment = collect_environment()
        reports = [single(info, options, trace, since, environment) for trace in traces]
        return matrix_of(reports) if several else reports[0]

    def open_device(self, torch_release: str, *, backend: str = "mps") -> OpenDevice:
        """See ``mpsprobe.protocols.Scanner``."""
        return OpenDevice(family_named(backend).target(torch_release))


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


def scanned(
    workload: Workload,
    options: RunOptions,
    tables: Sequence[KernelTable],
    progress: Progress,
    memory: Callable[[Trace, Again], MemoryPrediction | None],
    *,
    with_since: bool,
) -> tuple[WorkloadInfo, list[Trace], str | None]:
    """``workload``, built once and run on the release of each of ``tables``.

    ``memory`` is what a trace needs; it is asked as soon as a trace is there, with what runs that again. What is
    returned is what the workload is, one trace for each table, and with ``with_since`` the first release from which on
    all of it is native. Raises ``MpsprobeError`` where the workload cannot be built.
    """
    several = len(tables) > 1
    progress.start(1 if several else 2, f"building {workload.name}")
    try:
        with collecting_only_new() as begin_to_collect:
            run, elsewhere = built(workload, options, tables[-1])
            forms = [str(step.adamw_form(table)) for table in tables]
            of_form = dict(zip(forms, tables, strict=True))
            optimizers = {form: step.optimizer(run, options, table) for form, table in of_form.items()}
            begin_to_collect()
            tracer = Tracer(run, options)
            kinds = [_kind(table, options) for table in tables]
            traces: dict[int, Trace] = {}
            for number, first in enumerate(tables):
                if number in traces:
                    continue
                alike = [kind is not None and kind == kinds[number] for kind in kinds]
                others = [
                    (table, alike[at] and at > number and at not in traces)
                    for at, table in enumerate(tables)
                    if at != number
                ]
                settled = tracer.settled(first, others=others)
                again: Again = cache(partial(tracer.trace, first))
                for at in range(number, len(tables)):
                    position = None if at == number else at - 1
                    trace = None if at in traces else _of_release(settled, position, tables[at])
                    if trace is None:
                        continue
                    what = f"running it on torch {trace.table.release}"
                    progress.start(len(tables), what) if several and not traces else progress.advance(what)
                    optimizer = optimizers[forms[at]]
                    trace.optimizer = None if optimizer is None else optimizer_name(optimizer)
                    trace.memory = memory(trace, again)
                    trace.events = ()  # they are many, and often those of another release
                    traces[at] = trace
            info = workload_info(workload.name, tracer.run, options, optimizers[forms[-1]])
            info.notes.extend(moves_elsewhere(elsewhere, tables[0].family.backend))
            in_order = [traces[at] for at in range(len(tables))]
            since = first_native_release(tracer, in_order) if with_since else None
    finally:
        progress.stop()
    # Of lazy modules only a run shows the parameters.
    return info.model_copy(update={"parameters": in_order[0].parameters}), in_order, since


def _kind(table: KernelTable, options: RunOptions) -> Hashable:
    """What is known before a run: only a release of the same kind may share it; None for one that shares none.

    The judges of each are asked about every call of the run. A release that does something else somewhere, or comes to
    another verdict, gets a run of its own, which may again be one for others.
    """
    if table.source or table.release not in composition_releases():
        return None
    return (
        id(table.family),
        options.phase == "training"
        and (table.family.optimizer_forms(table), table.at_least(step.FUSED_BY_DEFAULT_SINCE)),
        options.autocast and (table.keys.get(table.autocast_key), table.at_least(step.SCALED_IN_FLOAT32_SINCE)),
    )


def _of_release(trace: Trace, position: int | None, table: KernelTable) -> Trace | None:
    """What ``trace`` says about the release of ``table``; None where that needs a run of its own.

    ``position`` is that of the table among the other releases of the run; None for the one that it was run on.
    """
    ran_on = trace.table.release
    named = trace.failure is not None and ran_on in trace.failure.message
    if position is not None and (named or position not in trace.alike):
        return None

    def of_table(judgement: Judgement) -> Judgement:
        if position is None or not judgement.others:
            return judgement._replace(others=())
        other: Judgement = judgement.others[position]
        if other.verdict == "unknown" and other.reason is not None:  # what the device itself has found out
            other = other._replace(reason=other.reason.replace(f"torch {ran_on}", f"torch {table.release}"))
        return other

    records = trace.recorder.calls()
    if any(of_table(record.judgement).verdict != record.judgement.verdict for record in records):
        return None
    return replace(trace, table=table, recorder=trace.recorder.judged(of_table))
