"""From a trace file to a report: steps, operators, modules, memory and the time line of each cell."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, field_validator

from mpsprobe.engine.statistics import duration_statistics, outliers
from mpsprobe.errors import ReportError
from mpsprobe.schemas import (
    DeviceInfo,
    DurationStatistics,
    MemoryUse,
    ProfileCell,
    ProfilePlan,
    ProfileReport,
    StepSample,
    WorkloadInfo,
)
from mpsprobe.suggestions import printable
from mpsprobe_devices.traces.columns import COPY, KERNEL, MODULE, MOST_DETAILS, PHASE, STEP, Columns, cleaned
from mpsprobe_devices.traces.events import MOST_EVENTS, Reader
from mpsprobe_devices.traces.stream import HINT, TraceFile
from mpsprobe_devices.traces.tensorflow import Translation, XSpaceFile
from mpsprobe_devices.traces.timeline import curves, drawn, make_trace
from mpsprobe_devices.traces.totals import Totals, fallback_costs, module_times, operator_times

DEFAULT_LIMIT = 1_000_000  # events that the report's trace keeps
SUFFIXES = re.compile(r"((\.pt)?\.trace)?\.json(\.gz)?$|\.gz$|(\.xplane)?\.pb$", re.IGNORECASE)
NO_NAME = "trace"
UNDER_A_PROFILER = "imported from a trace: the steps ran under a profiler, which makes them slower"
BACKWARD = ("autograd::engine::", "Optimizer.step")  # what only a training step runs
Phase = Literal["inference", "training"]


class Facts(BaseModel):
    """What a file that mpsprobe wrote says about a cell; ``None`` for what it does not say, or nobody would believe."""

    model_config = ConfigDict(strict=True)

    workload: str | None = None
    phase: Phase | None = None
    device: str | None = None
    batch_size: int | None = None
    seq_len: int | None = None
    dtype: str | None = None
    autocast: str | None = None
    timed: int | None = Field(default=None, alias="timed_process")

    @field_validator("*", mode="wrap")
    @classmethod
    def _believed(cls, written: Any, read: ValidatorFunctionWrapHandler) -> Any:
        try:
            return read(cleaned(written) if isinstance(written, str) else written)
        except ValidationError:
            return None


def import_trace(
    path: Path, limit: int = DEFAULT_LIMIT, tell: Callable[[int], None] = lambda read: None
) -> ProfileReport:
    """The report of the trace in the file ``path``. ``limit`` and ``tell``: as ``Columns`` and ``TraceFile`` have them.

    Raises:
        ReportError: the file cannot be read, is not a trace, or has no event with a duration.
    """
    source = XSpaceFile(path, tell) if path.suffix.lower() == ".pb" else TraceFile(path, tell)
    parts = _Parts(source, limit)
    reader = Reader(parts.columns_of)
    translated = Translation()
    for event in source.events():
        wanted = translated(event)
        if wanted is not None and not reader.read(wanted):
            source.problem = f"it has more than {MOST_EVENTS:,}"
            break
    filled = [(facts, columns) for facts, columns in parts.cells if len(columns) or reader.timed.get(facts.timed)]
    if not filled:
        raise ReportError(f"{printable(str(path))} is a trace, but has no event with a duration", HINT)
    notes = _notes_of_file(source, reader, sum(columns.undescribed for _, columns in filled))
    name = cleaned(SUFFIXES.sub("", path.name)) or NO_NAME
    device = _device(source.head, reader)
    made = [_cell(facts, columns, reader, (name, device), notes) for facts, columns in filled]
    return _report(source.head, [cell for cell, _ in made], [info for _, info in made])


class _Parts:
    """Which process of the file belongs to which cell: as a file of ``mpsprobe export`` says, else all to one."""

    def __init__(self, source: TraceFile, limit: int) -> None:
        self._source = source
        self._limit = limit
        self._by_process: dict[object, Columns] | None = None
        self._rest: Columns | None = None  # of processes that no cell names
        self.cells: list[tuple[Facts, Columns]] = []

    def columns_of(self, process: object) -> Columns | None:
        """The columns for events of ``process``; ``None`` for the process of timed steps."""
        if self._by_process is None:
            self._by_process = self._divided()
        return self._by_process.get(process, self._rest) if isinstance(process, int) else self._rest

    def _divided(self) -> dict[object, Columns]:
        by_process: dict[object, Columns] = {}
        for cell in _of_ours(self._source.head, "cells"):
            if isinstance(cell, dict):
                columns, numbers = Columns(self._limit), cell.get("processes")
                self.cells.append((Facts.model_validate(cell), columns))
                for number in numbers if isinstance(numbers, list) else []:
                    if isinstance(number, int):
                        by_process[number] = columns
        if not self.cells:
            self._rest = Columns(self._limit)
            self.cells.append((Facts(), self._rest))
        return by_process


def _of_ours(head: Mapping[str, Any], key: str) -> list[Any]:
    """What ``mpsprobe export`` wrote in addition to the events; nothing where the file is another program's."""
    about = head.get("mpsprobe")
    values = about.get(key) if isinstance(about, dict) else None
    return values if isinstance(values, list) else []


def _device(head: Mapping[str, Any], reader: Reader) -> str:
    """The device's type by what started its kernels; it is only asked for where there are some."""
    launchers = [name for name, _ in reader.launched_by.most_common() if name != "gpu"]
    return (launchers or ["cuda" if head.get("deviceProperties") else "gpu"])[0]


def _notes_of_file(source: TraceFile, reader: Reader, undescribed: int) -> list[str]:
    notes = []
    if source.problem is not None:
        notes.append(f"only the first {reader.events:,} events of the file could be read: {source.problem}")
    notes += [f"events {reason}, left out: {count:,}" for reason, count in reader.skipped.items()]
    if undescribed:
        notes.append(f"events without their details, of which there are more than {MOST_DETAILS:,}: {undescribed:,}")
    return notes


def _cell(
    facts: Facts, columns: Columns, reader: Reader, otherwise: tuple[str, str], notes: list[str]
) -> tuple[ProfileCell, WorkloadInfo]:
    """One cell and what it ran. ``otherwise``: name of the workload and of the device where the file does not tell."""
    totals = Totals(columns)
    on_device = KERNEL in columns.kind or COPY in columns.kind
    where = facts.device or (otherwise[1] if on_device else "cpu")
    marks = _durations(columns, [index for index, kind in enumerate(columns.kind) if kind == STEP])
    timed = reader.timed.get(facts.timed, {})
    samples = [
        StepSample(duration_ns=spent, process=process, outlier=outlier)
        for process, steps in enumerate(timed.values())
        for spent, outlier in steps
    ]
    if not samples:
        samples = [StepSample(duration_ns=ns, outlier=far) for ns, far in zip(marks, outliers(marks), strict=True)]
    profiled = len(marks) or (1 if len(columns) else 0)
    modules = module_times(totals, on_device)
    same: dict[str, Any] = {name: getattr(facts, name) for name in ("batch_size", "seq_len", "autocast")}
    same |= {"workload": facts.workload or otherwise[0]}
    trains = any(str(name).startswith(BACKWARD) or name == "backward" for name in columns.names)
    same |= {"phase": facts.phase or ("training" if trains else "inference")}
    own = [] if facts.timed in reader.timed else [UNDER_A_PROFILER]
    cell = ProfileCell(
        device=where,
        dtype=facts.dtype,
        steps=samples,
        step=duration_statistics([sample.duration_ns for sample in samples]),
        phases=_phases(columns),
        memory=_memory(columns, where == "cpu") if len(columns) else None,
        profiled_steps=profiled,
        operators=operator_times(totals, "trace", on_device),
        modules=modules,
        fallbacks=fallback_costs(totals, max(profiled, 1)),
        trace=make_trace(columns, reader.names, where == "cpu") if len(columns) else None,
        notes=[*own, *_notes(columns, totals, bool(marks)), *notes],
        **same,
    )
    info = WorkloadInfo(
        name=same.pop("workload"),
        architecture=modules[0].type if modules else "",
        dtype=facts.dtype or "",
        parameters=0,
        notes=["the trace does not say how many parameters it has"],
        **same,
    )
    return cell, info


def _phases(columns: Columns) -> dict[str, DurationStatistics]:
    names, by_name = list(columns.names), dict[int, list[int]]()
    for index, kind in enumerate(columns.kind):
        if kind == PHASE:
            by_name.setdefault(columns.name[index], []).append(index)
    phases = {str(names[name]): duration_statistics(_durations(columns, numbers)) for name, numbers in by_name.items()}
    return {name: statistics for name, statistics in phases.items() if statistics is not None}


def _durations(columns: Columns, numbers: list[int]) -> list[int]:
    columns.sort(numbers)
    return [columns.duration_ns[index] for index in numbers]


def _memory(columns: Columns, cpu: bool) -> MemoryUse | None:
    by_name = curves(columns, cpu)
    allocated, reserved = by_name.get("allocated_bytes"), by_name.get("reserved_bytes")
    if allocated is None:
        return None
    if reserved is not None and not any(value > 0 for _, value in reserved):
        reserved = None
    steps = [columns.start_ns[index] for index, kind in enumerate(columns.kind) if kind == STEP]
    return MemoryUse(
        source="allocator",
        allocated_bytes=round(allocated[-1][1]),
        peak_allocated_bytes=round(max(value for _, value in allocated)),
        reserved_bytes=round(reserved[-1][1]) if reserved else None,
        peak_reserved_bytes=round(max(value for _, value in reserved)) if reserved else None,
        curve=drawn(allocated, reserved, min(steps or columns.start_ns)),
    )


def _notes(columns: Columns, totals: Totals, marked: bool) -> list[str]:
    notes = []
    if len(columns) and not marked:
        notes.append("no steps are marked in the trace: operators and modules are those of the whole trace")
    if columns.left_out:
        notes.append(
            f"the trace keeps {columns.kept:,} events and leaves out "
            f"{columns.left_out:,}; operators and modules count all of them (--limit keeps more)"
        )
    if totals.overlapping:
        notes.append(f"events that lie across the end of another on their thread: {totals.overlapping:,}")
    if totals.unowned_ns:
        notes.append(f"kernels and copies that no operator of the trace started took {totals.unowned_ns / 1e6:,.3f} ms")
    if MODULE not in columns.kind and len(columns):
        notes.append("the trace has no modules: torch.profiler writes them with with_stack=True")
    return notes


def _report(head: Mapping[str, Any], cells: list[ProfileCell], infos: list[WorkloadInfo]) -> ProfileReport:
    workloads = {(info.name, info.phase): info for info in infos}
    devices = list(dict.fromkeys(cell.device for cell in cells))
    return ProfileReport(
        workloads=list(workloads.values()),
        environment=None,
        devices=[_described(head, device) for device in devices],
        plan=ProfilePlan(
            workloads=list(dict.fromkeys(info.name for info in infos)),
            phases=list(dict.fromkeys(info.phase for info in infos)),
            devices=devices,
            batch_sizes=list(dict.fromkeys(cell.batch_size for cell in cells)),
            seq_lens=list(dict.fromkeys(cell.seq_len for cell in cells)),
            steps=max(1, *(len(cell.steps) for cell in cells)),
            probes=["operators"],
        ),
        cells=cells,
        notes=[cleaned(note) for note in _of_ours(head, "notes") if isinstance(note, str)],
    )


def _described(head: Mapping[str, Any], device: str) -> DeviceInfo:
    for own in _of_ours(head, "devices"):
        if isinstance(own, dict) and own.get("type") == device and isinstance(own.get("name"), str):
            return DeviceInfo(type=device, name=cleaned(own["name"]))
    properties = head.get("deviceProperties")
    first = properties[0] if isinstance(properties, list) and properties and device != "cpu" else None
    if not isinstance(first, dict):
        return DeviceInfo(type=device, name="")
    name, size = first.get("name"), first.get("totalGlobalMem")
    return DeviceInfo(
        type=device,
        name=cleaned(name) if isinstance(name, str) and name else "",
        memory_bytes=size if isinstance(size, int) and size > 0 else None,
    )
