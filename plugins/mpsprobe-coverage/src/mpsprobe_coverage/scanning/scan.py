"""A workload → one report, for one torch release or for many."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from typing import Any

import torch
from packaging.version import Version

from mpsprobe.errors import MpsprobeError, UsageError, WorkloadError
from mpsprobe.protocols import Progress, RunOptions, TorchRun, Workload
from mpsprobe.schemas import (
    Report,
    RunFailure,
    WorkloadInfo,
)
from mpsprobe.stepping import optimizer_name, workload_info
from mpsprobe.suggestions import first_line, type_name
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.devices.virtual.data_dependent import Found
from mpsprobe_coverage.devices.virtual.execution import Outcomes
from mpsprobe_coverage.devices.virtual.restoring import as_before
from mpsprobe_coverage.devices.virtual.wrapping import initialised
from mpsprobe_coverage.knowledge.chips.mac import mac_asked
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.knowledge.kernels.releases import since_without_gap
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.knowledge.memory.lifetimes import Lifetimes
from mpsprobe_coverage.recording.dispatch import are_large
from mpsprobe_coverage.recording.recorder import NotNative
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.findings import (
    moves_elsewhere,
    site,
)
from mpsprobe_coverage.reporting.macos import check_macos
from mpsprobe_coverage.reporting.memory import label_model
from mpsprobe_coverage.reporting.reports import matrix, memory_of, single
from mpsprobe_coverage.scanning.garbage import collecting_only_new
from mpsprobe_coverage.scanning.open_device import OpenDevice
from mpsprobe_coverage.scanning.randomness import same_numbers
from mpsprobe_coverage.scanning.release_groups import may_share, shared
from mpsprobe_coverage.scanning.since import NativeRun, applies_to, native_since
from mpsprobe_coverage.scanning.step import adamw_form, make_adamw, run_step
from mpsprobe_coverage.scanning.unknown_sizes import Again, predicted

CHAINS_KEPT = 128
REFUSALS = 16  # how many messages of a model are passed over: each is one more run


Others = Sequence[tuple[KernelTable, bool]]

# What a chain has found out of an operator holds for every workload. It keeps its tables, so no other gets their ids.
_chains: dict[tuple[str | int | None, ...], Chain] = {}


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
        info, traces, since = scanned(workload, options, tables, progress, with_since=not long)
        return matrix(info, options, traces) if long else single(info, options, traces[0], since)

    def open_device(self, torch_release: str, *, backend: str = "mps") -> OpenDevice:
        """The virtual device of one release, to be opened with ``with``; see ``OpenDevice``.

        Raises:
            UsageError: there is no such release or backend.
        """
        return OpenDevice(family_named(backend).target(torch_release))


def scanned(
    workload: Workload,
    options: RunOptions,
    tables: Sequence[KernelTable],
    progress: Progress,
    *,
    with_since: bool,
    each: Callable[[Trace, Again], None] | None = None,
) -> tuple[WorkloadInfo, list[Trace], str | None]:
    """``workload``, built once and run on the release of each of ``tables``.

    Args:
        with_since: find from which release on all of it is native too.
        each: called with each trace as soon as it is there, and with what runs it again; it gives it its memory.

    Returns:
        What it is, one trace for each table, and the release from which on it is native.

    Raises:
        MpsprobeError: the workload cannot be built.
    """
    long = len(tables) > 1
    progress.start(1 if long else 2, f"building {workload.name}")
    try:
        with collecting_only_new() as begin_to_collect:
            device = VirtualDevice(tables[-1], keep_weights=options.weights)
            with same_numbers(), device.construction() as construction:
                run = workload.build(options)
            if not isinstance(run, TorchRun):
                raise WorkloadError(f"'{workload.name}' did not build a TorchRun, but {type(run).__name__}")
            optimizers: list[Any] = [None] * len(tables)
            if options.phase == "training":
                made = run.optimizer(run.model) if run.optimizer else None
                of_form: dict[str, Any] = {}
                for number, table in enumerate(tables):
                    form = str(adamw_form(table))
                    if form not in of_form:
                        of_form[form] = made or make_adamw(run.model, table)
                    optimizers[number] = of_form[form]
            begin_to_collect()
            found: dict[int, Trace] = {}
            outcomes: Outcomes = {}
            for number, first in enumerate(tables):
                if number in found:
                    continue
                others = [
                    (table, at > number and at not in found and may_share(first, table, options))
                    for at, table in enumerate(tables)
                    if at != number
                ]
                run, known = settled(run, options, first, outcomes, device, others=others)
                again: Again = cache(partial(trace, run, options, first, outcomes))
                for at, table in enumerate(tables[number:], number):
                    one = shared(known, None if at == number else at - 1, table) if at not in found else None
                    if one is None:
                        continue
                    step = f"running it on torch {table.release}"
                    progress.start(len(tables), step) if long and not found else progress.advance(step)
                    one.optimizer = None if optimizers[at] is None else optimizer_name(optimizers[at])
                    if each is not None:
                        each(one, again)
                    else:
                        one.memory = predicted(one, again, partial(memory_of, options=options), ranged=not long)
                        one.events = ()  # they are many
                    found[at] = one
            traces = [found[at] for at in range(len(tables))]
            info = workload_info(workload.name, run, options, optimizers[-1])
            info.notes.extend(moves_elsewhere(construction.elsewhere, tables[0].family.backend))
            since = _first_native_release(run, options, outcomes, traces) if with_since else None
    finally:
        progress.stop()
    info = info.model_copy(update={"parameters": traces[0].parameters})  # of lazy modules only a run shows them
    return info, traces, since


def settled(
    run: TorchRun,
    options: RunOptions,
    table: KernelTable,
    outcomes: Outcomes,
    device: VirtualDevice,
    unknown: Found = "ones",
    others: Others = (),
) -> tuple[TorchRun, Trace]:
    """One step of ``run``, or of the run that it is corrected to where its inputs do not fit on the CPU either.

    What the newest release takes fits: then the error is one of this release.

    Args:
        others: further releases, and whether the step may be about each of them; see ``together.py``.
    """
    found = trace(run, options, table, outcomes, unknown=unknown, others=others)
    while isinstance(found.error, Exception) and run.correct is not None:
        error: BaseException | None = found.error
        newest = table.family.load(table.family.releases[-1])
        if found.other_sizes or table.release != newest.release:
            with suppress(MpsprobeError):
                error = trace(run, options, newest, outcomes, sizes_of_cpu=True, unknown=unknown).error
        if not isinstance(error, Exception):
            break
        with device.construction():
            better = run.correct(error)
        if better is None:
            break
        run, found = better, trace(better, options, table, outcomes, unknown=unknown, others=others)
    found.error = None  # its traceback holds what the step made
    return run, found


def trace(
    run: TorchRun,
    options: RunOptions,
    table: KernelTable,
    outcomes: Outcomes,
    *,
    only_native: bool = False,
    sizes_of_cpu: bool = False,
    unknown: Found = "ones",
    others: Others = (),
) -> Trace:
    """Run one step of ``run`` on the virtual device of one release.

    Where a refusal ends it, it is run again and passes over that, so that the refusal is a finding among others. A
    message that ends the next run too is none about a dtype: the workload cannot run. ``unknown``: how many are found
    where values are not known.

    Raises:
        NotNative: a call was not native, and ``only_native`` asked for that.
    """
    passed_over: frozenset[str] = frozenset()
    chain = chain_for(table, options, [other for other, _ in others])
    chain.alike[:] = [alike for _, alike in others]
    once = partial(
        _trace, run, options, outcomes, chain, only_native=only_native, sizes_of_cpu=sizes_of_cpu, unknown=unknown
    )
    found = once(passed_over)
    while found.failure is not None and found.failure.message not in passed_over and len(passed_over) < REFUSALS:
        passed_over |= {found.failure.message}
        try:
            found = once(passed_over)
        except MpsprobeError:  # the loss does not depend on parameters beyond the refusal
            break
    found.alike = frozenset(number for number, alike in enumerate(chain.alike) if alike)
    return found


def _trace(
    run: TorchRun,
    options: RunOptions,
    outcomes: Outcomes,
    chain: Chain,
    passed_over: frozenset[str],
    *,
    only_native: bool,
    sizes_of_cpu: bool,
    unknown: Found,
) -> Trace:
    lifetimes = None if only_native else Lifetimes()
    device = VirtualDevice(
        chain,
        keep_weights=options.weights,
        outcomes=outcomes,
        passed_over=passed_over,
        sizes_of_cpu=sizes_of_cpu,
        lifetimes=lifetimes,
        found=unknown,
    )
    device.recorder.only_native = only_native
    failure: RunFailure | None = None
    raised: BaseException | None = None
    notes: list[str] = []
    # What the model keeps for its next call would be there in the next run.
    with as_before(run.model.modules()), nullcontext() if options.weights else _one_thread(), same_numbers(), device:
        device.move(run.model)
        label_model(run.model)
        try:
            notes = run_step(run, options, device)
        except (MpsprobeError, NotNative, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a model raises belongs into its report
            failure, raised = _failure(error, device), error
        finally:
            events = [] if lifetimes is None else lifetimes.end()
            for parameter in run.model.parameters():
                parameter.grad = None
        sizes = [(one.numel(), one.element_size()) for one in initialised(run.model.parameters())]
    parameters, size = sum(n for n, _ in sizes), sum(n * size for n, size in sizes)
    other = device.other_sizes
    notes = [*notes, other] if failure is not None and other else notes
    found = Trace(chain.table, device.recorder, device.calls(), failure, parameters, size, notes, raised, events, other)
    found.asked = device.asked
    return found


@contextmanager
def _one_thread() -> Iterator[None]:
    """The values that are known are few: to wake other threads for them takes longer than to compute them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def chain_for(table: KernelTable, options: RunOptions, others: Sequence[KernelTable] = ()) -> Chain:
    """The judges of the release, with the libraries that are loaded, for the macOS of ``options``; see ``Chain``."""
    libraries = table.family.loaded_libraries(table.release)
    key = (options.macos, *map(id, (table, *libraries.values())), None, *map(id, others))
    if key not in _chains:
        if len(_chains) >= CHAINS_KEPT:  # tables of plugins may be new ones each time
            _chains.clear()
        macos = None if options.macos is None else Version(options.macos)
        _chains[key] = Chain(table, libraries, macos=macos, others=[chain_for(one, options) for one in others])
    return _chains[key]


def _first_native_release(
    run: TorchRun, options: RunOptions, outcomes: Outcomes, traces: Sequence[Trace]
) -> str | None:
    """The first release from which on, without a gap up to the newest, the workload is native.

    ``traces`` of some releases are known; None where all of them ended early.
    """
    first = next((trace for trace in traces if trace.failure is None), None)
    if first is None:
        return None
    family, known = first.table.family, {trace.table.release: trace for trace in traces}
    if known.keys() >= set(family.releases):
        native = {release: _native_run(trace, options) is not None for release, trace in known.items()}
        return since_without_gap(family.releases, native.__getitem__)

    def again(release: str) -> NativeRun | None:
        if release in known:
            return _native_run(known[release], options)
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
        large = large or ("convolution" in record.operator and are_large((*record.inputs, *record.outputs)))
    if trace.failure is not None or trace.asked is None:
        return None
    return NativeRun(chain_for(trace.table, options), trace.calls, trace.asked, bool(options.autocast), large)


def _failure(error: BaseException, device: VirtualDevice) -> RunFailure:
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
