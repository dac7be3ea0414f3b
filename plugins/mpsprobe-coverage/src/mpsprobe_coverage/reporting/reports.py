"""Recordings as reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from packaging.version import Version

from mpsprobe.assembling import report_of
from mpsprobe.environment import collect_environment
from mpsprobe.errors import UsageError
from mpsprobe.protocols import MacOptions, RunOptions
from mpsprobe.schemas import CoverageReport, Environment, MemoryPrediction, OperatorFinding, WorkloadInfo
from mpsprobe_coverage.knowledge.chips.limits import macs_asked
from mpsprobe_coverage.knowledge.chips.store import GIB, sizes
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.recorder import Recorder
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting import findings as found
from mpsprobe_coverage.reporting.fitting import fit_on
from mpsprobe_coverage.reporting.graphs import compiles, keys_of
from mpsprobe_coverage.reporting.memory import prediction
from mpsprobe_coverage.reporting.timing import time_of

NO_TIME = "no time is predicted: nothing is computed on the device"


def check_macos(text: str, table: KernelTable) -> Version:
    """``--macos`` as a version. Raises ``UsageError`` where the release does not run on it."""
    macos = Version(text)
    if table.macos_minimum is not None and macos < Version(table.macos_minimum):
        raise UsageError(
            f"torch {table.release} needs macOS {table.macos_minimum} or newer for MPS, not {text}",
            "Judge an older torch release with --torch, or leave --macos out.",
        )
    return macos


def reported(
    recorder: Recorder,
    table: KernelTable,
    info: WorkloadInfo,
    *,
    mac: MacOptions,
    said: Sequence[str] = (),
    operators: list[OperatorFinding] | None = None,
    summary: Mapping[str, Any] | None = None,
    environment: Environment | None = None,
    **fields: Any,
) -> CoverageReport:
    """What was called on a device, judged by ``table`` for ``mac``.

    ``said`` are notes of the step on gradients. ``operators`` (the findings), ``summary`` (fields of it) and ``fields``
    are what the calls alone do not say. ``environment`` is found out otherwise, which takes ten milliseconds.
    """
    operators = found.findings(recorder, table) if operators is None else operators
    native = [finding.operator for finding in operators if finding.verdict == "native"]
    notes = [
        *info.notes,
        *said,
        *found.ends_of_branches(recorder),
        *found.gradients(recorder, table),
        *table.family.notes(table, native),
    ]
    return report_of(
        operators,
        {"advisories_compared": found.advisories_compared(table, mac), **(summary or {})},
        workload=info.model_copy(update={"notes": list(dict.fromkeys(notes))}),
        target=table.family.report_target(table, mac.macos),
        not_judged=found.not_judged(recorder),
        data_dependence=found.data_dependence(recorder),
        macos_conditions=[] if mac.macos else found.macos_conditions(recorder, table),
        first_refused_tensor=found.first_refused_tensor(recorder),
        advisories=found.advisory_matches(recorder, table, mac),
        environment=environment or collect_environment(),
        **fields,
    )


def single(
    info: WorkloadInfo, options: RunOptions, trace: Trace, since: str | None, environment: Environment | None = None
) -> CoverageReport:
    """The report on one release; ``since`` is the one from which on all of the workload is native."""
    table, recorder, memory = trace.table, trace.recorder, memory_of(trace, options)
    time = time_of(trace, options, info, memory)
    untimed = options.chip is not None and time is None and trace.failure is None
    return reported(
        recorder,
        table,
        info,
        mac=options,
        said=[*trace.notes, *_by_memory(None if trace.failure else memory), *[NO_TIME] * untimed],
        operators=found.findings(recorder, table, since),
        summary={
            "native_since": since,
            "parameters_bytes": trace.parameters_bytes,
            "graphs": None if compiles("", table) is None else keys_of(recorder.calls(), table).number,
        },
        environment=environment,
        memory=memory,
        time=time,
        failure=trace.failure,
    )


def _by_memory(memory: MemoryPrediction | None) -> list[str]:
    """With which of its memories a chip is enough, where the chip was asked about and no memory named."""
    if memory is None or not memory.fits:
        return []
    sold = [fit.memory_bytes // GIB for fit in memory.fits]
    enough = [fit.memory_bytes // GIB for fit in memory.fits if fit.answer == "fits"]
    with_less = next((fit.machine for fit in reversed(memory.fits) if fit.answer != "fits"), None)
    said = f"it fits with {sizes(enough)}" if enough else "it is above what Metal recommends with each"
    asked = f"; --chip {with_less} says what happens there" if with_less else ""
    return [f"{memory.fits[0].machine.rpartition('-')[0]} was sold with {sizes(sold)}: {said}{asked}"]


def memory_of(trace: Trace, options: RunOptions) -> MemoryPrediction | None:
    """What the run needs; None where nothing is known of the backend's allocator, or nothing was on the device."""
    if trace.memory is not None:
        return trace.memory
    if trace.table.backend.device != "mps":
        return None
    macs = macs_asked(options)
    return prediction(
        trace.events,
        trace.table.release,
        options.macos,
        lambda needs, events: [fit_on(mac, needs, events) for mac in macs],
        detailed=options.allocations,
    )
