"""A workload → one report, for one torch release or for many."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from mpsprobe.environment import collect_environment
from mpsprobe.errors import MpsprobeError, UsageError, WorkloadError
from mpsprobe.protocols import Progress, RunOptions, TorchRun, Workload
from mpsprobe.schemas import (
    AdvisoryMatch,
    CoverageReport,
    MatrixCell,
    MatrixReport,
    Report,
    RunFailure,
    TableProvenance,
    Target,
    WorkloadInfo,
)
from mpsprobe.stepping import optimizer_name
from mpsprobe.suggestions import first_line
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.execution import Outcomes
from mpsprobe_coverage.device.recorder import Recorder
from mpsprobe_coverage.kernels.backends import backend_tables
from mpsprobe_coverage.kernels.releases import torch_releases
from mpsprobe_coverage.kernels.store import load_table
from mpsprobe_coverage.kernels.table import KernelTable
from mpsprobe_coverage.scanner.advisories import advisory_matches
from mpsprobe_coverage.scanner.elsewhere import other_target
from mpsprobe_coverage.scanner.findings import (
    data_dependence,
    findings,
    first_refused_tensor,
    not_judged,
    site,
    summarise,
)
from mpsprobe_coverage.scanner.macos import check_macos, conditions, refuse_before
from mpsprobe_coverage.scanner.opened import OpenDevice
from mpsprobe_coverage.scanner.since import NativeRun, native_since, speaks_for, speaks_for_table
from mpsprobe_coverage.scanner.step import make_adamw, run_step
from mpsprobe_coverage.scanner.targets import libraries_for, table_for


@dataclass(slots=True)
class Trace:
    """What one release does with the workload."""

    table: KernelTable
    recorder: Recorder
    failure: RunFailure | None


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
                while it runs is no error here: the report has the operators before it, and ``failure``.
        """
        backend = backend_tables(options.backend)
        tables = [table_for(release, backend) for release in torch_releases]
        if not tables:
            raise UsageError("no torch release to judge")
        if options.macos and backend is not None:
            raise UsageError(f"a version of macOS says nothing about {backend.backend.label}", "Leave --macos out.")
        for table in tables if options.macos else ():
            check_macos(options.macos or "", table)
        long = len(tables) > 1
        if long:
            progress.start(len(tables) + 1, f"building {workload.name}")
        try:
            device = VirtualDevice(tables[-1], keep_weights=options.weights)
            with device.construction():
                run = workload.build(options)
            if not isinstance(run, TorchRun):
                raise WorkloadError(f"'{workload.name}' did not build a TorchRun, but {type(run).__name__}")
            facts = _Facts.of(workload, options, run, tables[-1])
            traces = []
            outcomes: Outcomes = {}
            for table in tables:
                if long:
                    progress.advance(f"torch {table.release}")
                traces.append(trace(run, options, table, outcomes))
        finally:
            if long:
                progress.stop()
        if long:
            return _matrix(facts, traces)
        return _single(facts, traces[0], _first_native_release(run, options, outcomes, traces[0]))

    def open_device(self, torch_release: str, *, backend: str = "mps") -> OpenDevice:
        """The virtual device of one release, to be opened with ``with``; see ``OpenDevice``.

        Raises:
            UsageError: there is no such release or backend.
        """
        return OpenDevice(table_for(torch_release, backend_tables(backend)))


def trace(run: TorchRun, options: RunOptions, table: KernelTable, outcomes: Outcomes) -> Trace:
    """Run one step of ``run`` on the virtual device of one release."""
    device = VirtualDevice(table, libraries_for(table), keep_weights=options.weights, outcomes=outcomes)
    failure = None
    with device:
        device.move(run.model)
        try:
            run_step(run, options, device)
        except (MpsprobeError, KeyboardInterrupt):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a model raises belongs into its report
            failure = _failure(error, device)
        finally:
            for parameter in run.model.parameters():
                parameter.grad = None
    if options.macos is not None:
        refuse_before(device.recorder, table, Version(options.macos))
    return Trace(table, device.recorder, failure)


@dataclass(slots=True)
class _Facts:
    workload: WorkloadInfo
    parameters_bytes: int
    macos: str | None

    @classmethod
    def of(cls, workload: Workload, options: RunOptions, run: TorchRun, table: KernelTable) -> _Facts:
        parameters = list(run.model.parameters())
        optimizer = None
        if options.phase == "training":
            optimizer = optimizer_name(run.optimizer(run.model) if run.optimizer else make_adamw(run.model, table))
        info = WorkloadInfo.model_validate(
            {
                "name": workload.name,
                "architecture": run.architecture or type(run.model).__name__,
                "phase": options.phase,
                "dtype": options.dtype,
                "parameters": sum(p.numel() for p in parameters),
                "batch_size": run.batch_size,
                "seq_len": run.seq_len,
                "autocast": options.autocast,
                "grad_accum": options.grad_accum,
                "optimizer": optimizer,
                "weights": options.weights,
                "notes": list(run.notes),
            }
        )
        return cls(info, sum(p.numel() * p.element_size() for p in parameters), options.macos)


def _first_native_release(run: TorchRun, options: RunOptions, outcomes: Outcomes, first: Trace) -> str | None:
    """From which release on all of the workload is native; ``first`` is known already."""
    if first.failure is not None:
        return None

    family = first.table.family
    load = load_table if family is None else family.load

    def again(release: str) -> NativeRun | None:
        return _native_run(trace(run, options, load(release), outcomes), options)

    def speaks(native: NativeRun, release: str) -> bool:
        return speaks_for(native, release) if family is None else speaks_for_table(native, load(release))

    known = (first.table.release, _native_run(first, options))
    return native_since(torch_releases() if family is None else family.releases, again, speaks, known)


def _native_run(one: Trace, options: RunOptions) -> NativeRun | None:
    records = list(one.recorder.calls())
    if one.failure is not None or any(record.verdict != "native" for record in records):
        return None
    met: dict[str, set[object]] = {}
    for record in records:
        met.setdefault(record.operator, set()).update(spec.dtype for spec in (*record.inputs, *record.outputs))
    dtypes = frozenset(dtype for found in met.values() for dtype in found)
    by_operator = {operator: frozenset(found) for operator, found in met.items()}
    return NativeRun(one.table.release, frozenset(met), dtypes, bool(options.autocast), by_operator)


def _single(facts: _Facts, trace: Trace, since: str | None) -> CoverageReport:
    found = findings(trace.recorder, trace.table, since)
    advised = advisory_matches(trace.recorder, trace.table, facts.macos)
    return CoverageReport(
        method="predicted",
        workload=facts.workload,
        target=_target(trace.table, facts.macos),
        environment=collect_environment(),
        summary=summarise(found, facts.parameters_bytes, since, len(advised)),
        operators=found,
        not_judged=not_judged(trace.recorder),
        data_dependence=data_dependence(trace.recorder),
        macos_conditions=[] if facts.macos else conditions(trace.recorder, trace.table),
        first_refused_tensor=first_refused_tensor(trace.recorder),
        advisories=advised,
        failure=trace.failure,
    )


def _matrix(facts: _Facts, traces: list[Trace]) -> MatrixReport:
    cells = []
    newest: Any = None
    advisories: dict[str, AdvisoryMatch] = {}
    for one in traces:
        advised = {match.id: match for match in advisory_matches(one.recorder, one.table, facts.macos)}
        advisories = {**advisories, **advised}
        newest = findings(one.recorder, one.table)
        others = {finding.operator: finding.verdict for finding in reversed(newest) if finding.verdict != "native"}
        cells.append(
            MatrixCell(
                target=_target(one.table, facts.macos),
                summary=summarise(newest, facts.parameters_bytes, advisories=len(advised)),
                findings=others,
                advisories=list(advised),
                failure=one.failure,
            )
        )
    return MatrixReport(
        method="predicted",
        workload=facts.workload,
        environment=collect_environment(),
        native_since=_native_since(cells),
        releases=cells,
        operators=newest,
        not_judged=not_judged(traces[-1].recorder),
        data_dependence=data_dependence(traces[-1].recorder),
        advisories=list(advisories.values()),
    )


def _native_since(cells: list[MatrixCell]) -> str | None:
    """The first release from which every traced release up to the newest is native throughout."""
    since = None
    for cell in reversed(cells):
        if cell.findings or cell.failure is not None:
            break
        since = cell.target.torch
    return since


def _target(table: KernelTable, macos: str | None = None) -> Target:
    if not table.is_mps:
        return other_target(table)
    provenance = TableProvenance(wheel=table.wheel, sha256=table.sha256) if table.wheel else None
    return Target(torch=table.release, macos_minimum=table.macos_minimum, macos=macos, table=provenance)


def _failure(error: Exception, device: VirtualDevice) -> RunFailure:
    module, place = None, None
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not device.attribution.is_internal(f.filename)]
    if frames:
        place = site(frames[-1].filename, frames[-1].lineno or 0)
    module = device.attribution.deepest_module
    phase = device.recorder.last_phase or "forward"
    return RunFailure(
        phase=phase, error=type(error).__name__, message=first_line(error), module=module, call_site=place
    )
