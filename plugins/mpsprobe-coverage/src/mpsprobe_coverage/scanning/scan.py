"""A workload → one report, for one torch release or for many."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cache, partial

from mpsprobe.assembling import matrix_of
from mpsprobe.environment import collect_environment
from mpsprobe.errors import UsageError
from mpsprobe.protocols import Progress, RunOptions, Workload
from mpsprobe.schemas import MemoryPrediction, Report, WorkloadInfo
from mpsprobe.stepping import optimizer_name, workload_info
from mpsprobe_coverage.knowledge.chips.mac import mac_asked
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.knowledge.kernels.compositions import composition_releases
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.findings import moves_elsewhere
from mpsprobe_coverage.reporting.reports import check_macos, memory_of, single
from mpsprobe_coverage.scanning import step
from mpsprobe_coverage.scanning.open_device import OpenDevice
from mpsprobe_coverage.scanning.process_state import collecting_only_new
from mpsprobe_coverage.scanning.since import first_native_release
from mpsprobe_coverage.scanning.tracing import Tracer, built
from mpsprobe_coverage.scanning.unknown_sizes import Again, predicted

OF_MACS = {"macos": "a version of macOS", "chip": "a chip of Macs", "memory": "the memory of a Mac"}


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
