"""A workload → one report, for one torch release or for many."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from packaging.version import Version

from mpsprobe.environment import collect_environment
from mpsprobe.errors import MpsprobeError, UsageError, WorkloadError
from mpsprobe.protocols import Progress, RunOptions, TorchRun, Workload
from mpsprobe.schemas import (
    AdvisoryMatch,
    CoverageReport,
    MatrixCell,
    MatrixReport,
    MemoryPrediction,
    OperatorFinding,
    Report,
    RunFailure,
    WorkloadInfo,
)
from mpsprobe.stepping import workload_info
from mpsprobe.suggestions import first_line, type_name
from mpsprobe_coverage.calls.call import Calls
from mpsprobe_coverage.chips.mac import mac_asked
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.execution import Outcomes
from mpsprobe_coverage.device.lazy import initialised, uninitialised_afterwards
from mpsprobe_coverage.device.recorder import NotNative, Recorder
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.kernels.backends import family_named
from mpsprobe_coverage.kernels.releases import since_without_gap
from mpsprobe_coverage.kernels.table import KernelTable
from mpsprobe_coverage.memory.lifetimes import Event, Lifetimes
from mpsprobe_coverage.scanner.advisories import advisory_matches
from mpsprobe_coverage.scanner.findings import (
    data_dependence,
    findings,
    first_refused_tensor,
    gradients,
    moves_elsewhere,
    not_judged,
    site,
    summarise,
)
from mpsprobe_coverage.scanner.garbage import collecting_only_new
from mpsprobe_coverage.scanner.graphs import run_graphs
from mpsprobe_coverage.scanner.macos import check_macos, conditions
from mpsprobe_coverage.scanner.memory import label_model, prediction
from mpsprobe_coverage.scanner.opened import OpenDevice
from mpsprobe_coverage.scanner.since import LARGE, NativeRun, applies_to, native_since
from mpsprobe_coverage.scanner.step import make_adamw, run_step

CHAINS_KEPT = 128
REFUSALS = 16  # how many messages of a model are passed over: each is one more run


# What a chain has found out of an operator holds for every workload. It keeps its tables, so no other gets their ids.
_chains: dict[tuple[str | int | None, ...], Chain] = {}


@dataclass(slots=True)
class Trace:
    """What one release does with the workload.

    Attributes:
        parameters: how many numbers they are; those that the run left without a shape are not counted.
        parameters_bytes: what they take.
        error: what ``failure`` is about, until nobody can correct the inputs by it any more.
        events: when storages began and ended; none of a run that is about verdicts alone.
    """

    table: KernelTable
    recorder: Recorder
    calls: Calls
    failure: RunFailure | None
    parameters: int
    parameters_bytes: int
    notes: Sequence[str] = ()
    error: Exception | None = None
    events: Sequence[Event] = ()


class CoverageScanner:
    """Predicts coverage; see ``docs/explanation/virtual-device.md`` for how, and how far to trust it."""

    def scan(
        self, workload: Workload, options: RunOptions, torch_releases: Sequence[str], progress: Progress
    ) -> Report:
        """Judge ``workload`` against each of ``torch_releases`` (one: CoverageReport; more: MatrixReport).

        ``installed`` as a release asks the live dispatcher on a build with MPS, and means the installed
        release's table elsewhere. ``options.backend`` names another backend than MPS; a plugin brings its tables.

        Raises:
            MpsprobeError: the workload cannot be built, or a table cannot be read. A model that raises
                while it runs is not an error here: the report has the operators before it, and ``failure``.
        """
        family = family_named(options.backend)
        tables = [family.target(release) for release in torch_releases]
        if not tables:
            raise UsageError("no torch release to judge")
        if options.macos and not family.runs_on_macos:
            raise UsageError(f"a version of macOS says nothing about {family.backend.label}", "Leave --macos out.")
        if options.chip and not family.runs_on_macos:
            raise UsageError(f"a chip of Macs says nothing about {family.backend.label}", "Leave --chip out.")
        if options.memory and not family.runs_on_macos:
            raise UsageError(f"the memory of a Mac says nothing about {family.backend.label}", "Leave --memory out.")
        mac_asked(options)
        for table in tables if options.macos else ():
            check_macos(options.macos or "", table)
        long = len(tables) > 1
        progress.start(1 if long else 2, f"building {workload.name}")
        try:
            with collecting_only_new() as begin_to_collect:
                device = VirtualDevice(tables[-1], keep_weights=options.weights)
                with device.construction() as construction:
                    run = workload.build(options)
                if not isinstance(run, TorchRun):
                    raise WorkloadError(f"'{workload.name}' did not build a TorchRun, but {type(run).__name__}")
                optimizer = None
                if options.phase == "training":
                    optimizer = run.optimizer(run.model) if run.optimizer else make_adamw(run.model, tables[-1])
                begin_to_collect()
                traces: list[Trace] = []
                outcomes: Outcomes = {}
                for table in tables:
                    step = f"running it on torch {table.release}"
                    progress.start(len(tables), step) if long and not traces else progress.advance(step)
                    run, found = settled(run, options, table, outcomes, device)
                    traces.append(found)
                info = workload_info(workload.name, run, options, optimizer)
                info.notes.extend(moves_elsewhere(construction.elsewhere, family.backend))
                since = None if long else _first_native_release(run, options, outcomes, traces[0])
        finally:
            progress.stop()
        info = info.model_copy(update={"parameters": traces[0].parameters})  # of lazy modules only a run shows them
        if long:
            return _matrix(info, options, traces)
        return single(info, options, traces[0], since)

    def open_device(self, torch_release: str, *, backend: str = "mps") -> OpenDevice:
        """The virtual device of one release, to be opened with ``with``; see ``OpenDevice``.

        Raises:
            UsageError: there is no such release or backend.
        """
        return OpenDevice(family_named(backend).target(torch_release))


def settled(
    run: TorchRun, options: RunOptions, table: KernelTable, outcomes: Outcomes, device: VirtualDevice
) -> tuple[TorchRun, Trace]:
    """One step of ``run``, or of the run that it is corrected to where its inputs were derived and do not fit."""
    found = trace(run, options, table, outcomes)
    while found.error is not None and run.correct is not None:
        with device.construction():
            better = run.correct(found.error)
        if better is None:
            break
        run, found = better, trace(better, options, table, outcomes)
    found.error = None  # its traceback holds what the step made
    return run, found


def trace(
    run: TorchRun, options: RunOptions, table: KernelTable, outcomes: Outcomes, *, only_native: bool = False
) -> Trace:
    """Run one step of ``run`` on the virtual device of one release.

    Where a refusal ends it, it is run again and passes over that, so that the refusal is a finding among others. A
    message that ends the next run too is none about a dtype: the workload cannot run.

    Raises:
        NotNative: a call was not native, and ``only_native`` asked for that.
    """
    passed_over: frozenset[str] = frozenset()
    found = _trace(run, options, table, outcomes, passed_over, only_native)
    while found.failure is not None and found.failure.message not in passed_over and len(passed_over) < REFUSALS:
        passed_over |= {found.failure.message}
        try:
            found = _trace(run, options, table, outcomes, passed_over, only_native)
        except MpsprobeError:  # the loss does not depend on parameters beyond the refusal
            break
    return found


def _trace(
    run: TorchRun,
    options: RunOptions,
    table: KernelTable,
    outcomes: Outcomes,
    passed_over: frozenset[str],
    only_native: bool,
) -> Trace:
    chain = chain_for(table, options)
    lifetimes = None if only_native else Lifetimes()
    device = VirtualDevice(
        chain, keep_weights=options.weights, outcomes=outcomes, passed_over=passed_over, lifetimes=lifetimes
    )
    device.recorder.only_native = only_native
    failure, raised, notes = None, None, []
    with uninitialised_afterwards(run.model), nullcontext() if options.weights else _one_thread(), device:
        device.move(run.model)
        label_model(run.model)
        try:
            notes = run_step(run, options, device)
        except (MpsprobeError, KeyboardInterrupt):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a model raises belongs into its report
            failure, raised = _failure(error, device), error
        finally:
            events = [] if lifetimes is None else lifetimes.end()
            for parameter in run.model.parameters():
                parameter.grad = None
        sizes = [(one.numel(), one.element_size()) for one in initialised(run.model.parameters())]
    parameters, size = sum(n for n, _ in sizes), sum(n * size for n, size in sizes)
    return Trace(table, device.recorder, device.calls(), failure, parameters, size, notes, raised, events)


@contextmanager
def _one_thread() -> Iterator[None]:
    """The values that are known are few: to wake other threads for them takes longer than to compute them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _with_gradients(info: WorkloadInfo, traces: Sequence[Trace]) -> WorkloadInfo:
    """With what is to be said about gradients; where that differs, of the newest release that has something to say."""
    said = [(trace.table.release, gradients(trace.recorder, trace.table, trace.notes)) for trace in traces]
    alike = all(notes == said[0][1] for _, notes in said)
    release, notes = next(((release, notes) for release, notes in reversed(said) if notes), ("", []))
    return info.model_copy(
        update={"notes": [*info.notes, *(note if alike else f"torch {release}: {note}" for note in notes)]}
    )


def chain_for(table: KernelTable, options: RunOptions) -> Chain:
    """The judges of the release, with the libraries that are loaded, for the macOS of ``options``."""
    libraries = table.family.loaded_libraries(table.release)
    key = (options.macos, *map(id, (table, *libraries.values())))
    if key not in _chains:
        if len(_chains) >= CHAINS_KEPT:  # tables of plugins may be new ones each time
            _chains.clear()
        macos = None if options.macos is None else Version(options.macos)
        _chains[key] = Chain(table, libraries, macos=macos)
    return _chains[key]


def _first_native_release(run: TorchRun, options: RunOptions, outcomes: Outcomes, first: Trace) -> str | None:
    """The first release from which on, without a gap up to the newest, the workload is native."""
    if first.failure is not None:
        return None
    family = first.table.family

    def again(release: str) -> NativeRun | None:
        try:
            return _native_run(trace(run, options, family.load(release), outcomes, only_native=True), options)
        except NotNative:
            return None

    def applies(native: NativeRun, release: str) -> bool:
        return applies_to(native, chain_for(family.load(release), options))

    return native_since(family.releases, again, applies, (first.table.release, _native_run(first, options)))


def _native_run(trace: Trace, options: RunOptions) -> NativeRun | None:
    large = False
    for record in trace.recorder.calls():
        if record.judgement.verdict != "native":
            return None
        large = large or any(spec.numel >= LARGE for spec in (*record.inputs, *record.outputs))
    if trace.failure is not None:
        return None
    return NativeRun(chain_for(trace.table, options), trace.calls, bool(options.autocast), large)


def single(info: WorkloadInfo, options: RunOptions, trace: Trace, since: str | None) -> CoverageReport:
    """The report on one release; ``since`` is the one from which on all of the workload is native."""
    table, recorder = trace.table, trace.recorder
    operators = findings(recorder, table, since)
    advised = advisory_matches(recorder, table, options.macos, options.chip)
    return CoverageReport(
        method="predicted",
        workload=_noted(_with_gradients(info, [trace]), [(table, operators)]),
        target=table.family.report_target(table, options.macos),
        environment=collect_environment(),
        summary=summarise(operators, trace.parameters_bytes, since, len(advised), run_graphs(recorder, table)),
        operators=operators,
        not_judged=not_judged(recorder),
        data_dependence=data_dependence(recorder),
        macos_conditions=[] if options.macos else conditions(recorder, table),
        first_refused_tensor=first_refused_tensor(recorder),
        advisories=advised,
        memory=_memory(trace, options),
        failure=trace.failure,
    )


def _memory(trace: Trace, options: RunOptions) -> MemoryPrediction | None:
    if trace.table.backend.device != "mps":
        return None
    return prediction(trace.events, trace.table.release, options.macos, mac_asked(options))


def _matrix(info: WorkloadInfo, options: RunOptions, traces: list[Trace]) -> MatrixReport:
    cells = []
    newest: list[OperatorFinding] = []
    judged = []
    advisories: dict[str, AdvisoryMatch] = {}
    asked = mac_asked(options) is not None
    for trace in traces:
        table = trace.table
        advised = {match.id: match for match in advisory_matches(trace.recorder, table, options.macos, options.chip)}
        advisories = {**advisories, **advised}
        newest = findings(trace.recorder, table)
        judged.append((table, newest))
        cells.append(
            MatrixCell(
                target=table.family.report_target(table, options.macos),
                summary=summarise(newest, trace.parameters_bytes, advisories=len(advised)),
                fit=memory.fit if asked and (memory := _memory(trace, options)) else None,
                findings={
                    finding.operator: finding.verdict for finding in reversed(newest) if finding.verdict != "native"
                },
                advisories=list(advised),
                failure=trace.failure,
            )
        )
    native = {cell.target.torch: not cell.findings and cell.failure is None for cell in cells}
    return MatrixReport(
        method="predicted",
        workload=_noted(_with_gradients(info, traces), judged),
        environment=collect_environment(),
        native_since=since_without_gap([*native], native.__getitem__),
        releases=cells,
        operators=newest,
        not_judged=not_judged(traces[-1].recorder),
        data_dependence=data_dependence(traces[-1].recorder),
        advisories=list(advisories.values()),
    )


def _noted(info: WorkloadInfo, judged: Sequence[tuple[KernelTable, list[OperatorFinding]]]) -> WorkloadInfo:
    """``info`` with what the tables say in addition to their native verdicts, each sentence once."""
    notes = dict.fromkeys(info.notes)
    for table, operators in judged:
        notes |= dict.fromkeys(
            table.family.notes(table, [one.operator for one in operators if one.verdict == "native"])
        )
    return info.model_copy(update={"notes": list(notes)})


def _failure(error: Exception, device: VirtualDevice) -> RunFailure:
    place = None
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not device.attribution.is_internal(f.filename)]
    if frames:
        place = site(frames[-1].filename, frames[-1].lineno or 0)
    return RunFailure(
        phase=device.recorder.last_phase or "forward",
        error=type_name(error),
        message=first_line(error),
        module=device.attribution.deepest_module,
        call_site=place,
    )
