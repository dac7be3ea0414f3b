"""The events of one cell as the report has them: steps, operators, modules, memory and the trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, field_validator

from mpsprobe.engine.session import step_samples
from mpsprobe.engine.statistics import duration_statistics
from mpsprobe.importing import curves
from mpsprobe.importing.columns import COPY, FALLBACK, KERNEL, MODULE, PHASE, STEP, Columns, cleaned
from mpsprobe.importing.timeline import make_trace
from mpsprobe.importing.totals import MOST_MODULES, MOST_SHAPES, Total, Totals, add_up
from mpsprobe.schemas.profile import (
    DurationStatistics,
    FallbackCost,
    MemoryUse,
    ModuleTime,
    OperatorTime,
    ProfileCell,
    StepSample,
)
from mpsprobe.schemas.run import WorkloadInfo

if TYPE_CHECKING:
    from mpsprobe.importing.events import Reader

NO_NAME = "trace"
UNKNOWN = "unknown"
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


def make_cell(
    facts: Facts, columns: Columns, reader: Reader, name: str, device: str
) -> tuple[ProfileCell, WorkloadInfo]:
    """One cell and what it ran.

    Args:
        name: of the workload where the file does not tell.
        device: what kernels ran on where the file does not tell.
    """
    totals = add_up(columns)
    on_device = KERNEL in columns.kind or COPY in columns.kind
    where = facts.device or (device if on_device else "cpu")
    marks = _durations(columns, STEP)
    samples = _timed(reader, facts) or step_samples(marks)
    profiled = len(marks) or (1 if len(columns) else 0)
    modules = _modules(totals, on_device)
    phase: Phase = facts.phase or ("training" if _trains(columns) else "inference")
    workload = facts.workload or name
    trace, memory = None, None
    if len(columns):
        trace = make_trace(columns, reader.names, where == "cpu")
        memory = _memory(columns, where == "cpu")
    same: dict[str, Any] = {name: getattr(facts, name) for name in ("batch_size", "seq_len", "autocast")}
    cell = ProfileCell(
        workload=workload,
        phase=phase,
        device=where,
        dtype=facts.dtype,
        steps=samples,
        step=duration_statistics([one.duration_ns for one in samples]),
        phases=_phases(columns),
        memory=memory,
        profiled_steps=profiled,
        operators=_operators(columns, totals, on_device),
        modules=modules,
        fallbacks=_fallbacks(columns, max(profiled, 1)),
        trace=trace,
        notes=_notes(columns, totals, bool(marks)),
        **same,
    )
    info = WorkloadInfo(
        name=workload,
        architecture=modules[0].type if modules else UNKNOWN,
        phase=phase,
        dtype=facts.dtype or UNKNOWN,
        parameters=0,
        notes=["the trace does not say how many parameters it has"],
        **same,
    )
    return cell, info


def _timed(reader: Reader, facts: Facts) -> list[StepSample]:
    rows = reader.timed.get(facts.timed, {})
    return [
        StepSample(duration_ns=spent, process=process, outlier=outlier)
        for process, steps in enumerate(rows.values())
        for spent, outlier in steps
    ]


def _durations(columns: Columns, kind: int, name: int | None = None) -> list[int]:
    found = [
        (columns.start_ns[index], columns.duration_ns[index])
        for index, one in enumerate(columns.kind)
        if one == kind and (name is None or columns.name[index] == name)
    ]
    return [spent for _, spent in sorted(found)]


def _phases(columns: Columns) -> dict[str, DurationStatistics]:
    names = list(columns.names)
    numbers = dict.fromkeys(columns.name[index] for index, kind in enumerate(columns.kind) if kind == PHASE)
    found = {str(names[number]): duration_statistics(_durations(columns, PHASE, number)) for number in numbers}
    return {name: one for name, one in found.items() if one is not None}


def _trains(columns: Columns) -> bool:
    return any(str(name).startswith(BACKWARD) or name == "backward" for name in columns.names)


def _operators(columns: Columns, totals: Totals, on_device: bool) -> list[OperatorTime]:
    names, details = list(columns.names), list(columns.details)
    found = []
    for number, total in totals.operators.items():
        described = [dict(details[detail]) for detail, _ in total.shapes.most_common()]
        shapes = (one.get("shapes") for one in described)
        scopes = {one["module"]: None for one in described if "module" in one}  # of TensorFlow, which has no modules
        found.append(
            OperatorTime(
                operator=str(names[number]),
                calls=total.calls,
                **_times(total, on_device),
                shapes=list(dict.fromkeys(one for one in shapes if one))[:MOST_SHAPES],
                modules=list(total.modules or scopes)[:MOST_MODULES],
                source="trace",
            )
        )
    return sorted(found, key=_weight)


def _modules(totals: Totals, on_device: bool) -> list[ModuleTime]:
    found = [
        ModuleTime(module=path, type=kind, calls=total.calls, **_times(total, on_device), phase=phase)
        for (path, kind, phase), total in totals.modules.items()
    ]
    return sorted(found, key=lambda one: -one.host_ns)


def _times(total: Total, on_device: bool) -> dict[str, Any]:
    # Of events that lie across each other the parts can be longer than the whole.
    host = {"host_ns": total.host_ns, "self_host_ns": max(total.self_host_ns, 0)}
    return host | ({"device_ns": total.device_ns, "self_device_ns": total.self_device_ns} if on_device else {})


def _weight(one: OperatorTime) -> tuple[int, int]:
    return -(one.self_device_ns or 0), -one.self_host_ns


def _fallbacks(columns: Columns, steps: int) -> list[FallbackCost]:
    names, details = list(columns.names), list(columns.details)
    found: dict[int, list[tuple[int, Mapping[str, str]]]] = {}
    for index, kind in enumerate(columns.kind):
        if kind == FALLBACK:
            call = columns.duration_ns[index], columns.detail_of(index, details)
            found.setdefault(columns.name[index], []).append(call)
    return [
        FallbackCost(
            operator=str(names[name]),
            calls=max(1, len(calls) // steps),
            method="observed",
            verdict=calls[0][1].get("verdict", "fallback"),
            duration_ns=sum(spent for spent, _ in calls) // steps,
            bytes=sum(_size(known.get("bytes", "")) for _, known in calls) // steps or None,
        )
        for name, calls in found.items()
    ]


def _size(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 19 else 0


def _memory(columns: Columns, cpu: bool) -> MemoryUse | None:
    found = curves.by_name(columns, cpu)
    allocated, reserved = found.get("allocated_bytes"), found.get("reserved_bytes")
    if allocated is None:
        return None
    held = reserved is not None and any(value > 0 for _, value in reserved)
    return MemoryUse(
        source="allocator",
        allocated_bytes=round(allocated[-1][1]),
        peak_allocated_bytes=round(max(value for _, value in allocated)),
        reserved_bytes=round(reserved[-1][1]) if held and reserved else None,
        peak_reserved_bytes=round(max(value for _, value in reserved)) if held and reserved else None,
        curve=curves.drawn(allocated, reserved if held else None, _first_step(columns)),
    )


def _first_step(columns: Columns) -> int:
    starts = [columns.start_ns[index] for index, kind in enumerate(columns.kind) if kind == STEP]
    return min(starts or columns.start_ns)


def _notes(columns: Columns, totals: Totals, marked: bool) -> list[str]:
    notes = []
    if len(columns) and not marked:
        notes.append("no steps are marked in the trace: operators and modules are those of the whole trace")
    if columns.left_out:
        notes.append(
            f"the trace keeps {len(columns) + columns.frames - columns.left_out:,} events and leaves out "
            f"{columns.left_out:,}; operators and modules count all of them (--limit keeps more)"
        )
    if totals.overlapping:
        notes.append(f"events that lie across the end of another on their thread: {totals.overlapping:,}")
    if totals.unowned_ns:
        notes.append(f"kernels and copies that no operator of the trace started took {totals.unowned_ns / 1e6:,.3f} ms")
    if MODULE not in columns.kind and len(columns):
        notes.append("the trace has no modules: torch.profiler writes them with with_stack=True")
    return notes
