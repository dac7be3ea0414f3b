"""A profile as one long table: a row for each thing that was measured. CSV and Parquet hold the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mpsprobe.schemas import MemoryUse, ProfileCell, ProfileReport

MEMORY = ("allocated", "reserved", "peak_allocated", "peak_reserved", "peak_process")
CURVES = ("allocated", "reserved", "process")
COSTS = (("calls", "calls", "calls"), ("duration", "duration_ns", "ns"), ("copied", "bytes", "bytes"))
STATISTICS = ("median", "low", "high", "minimum", "maximum")
KEY = ("workload", "phase", "device", "batch_size", "seq_len", "dtype", "autocast")  # what makes a configuration


class MeasuredRow(NamedTuple):
    """One measured thing of one configuration; ``None`` for what a column does not say about it.

    Attributes:
        workload, phase, device, batch_size, seq_len, dtype, autocast: the configuration.
        kind: ``first_call``, ``warmup``, ``step``, ``phase``, ``statistic``, ``throughput``, ``memory``,
            ``memory_curve``, ``reading``, ``unavailable``, ``operator``, ``module``, ``fallback``, ``note`` or
            ``failure``.
        name: which one: a phase, a probe, an operator, a module, ….
        measure: what of it: ``duration``, ``median``, ``calls``, ``self_host``, ….
        process, sample: in which process, and which one there, from 0.
        time_ns: when, for a point of a curve.
        value, unit: how much; ``ns``, ``bytes``, ``calls``, ``per_second``, or empty where the measure's name has it.
        steps: how many steps the value is the total of.
        outlier: of a timed step.
        note: words: a probe's reading that is no number, a reason, a failure.
    """

    workload: str
    phase: str
    device: str
    batch_size: int | None
    seq_len: int | None
    dtype: str | None
    autocast: str | None
    kind: str
    name: str | None = None
    measure: str | None = None
    process: int | None = None
    sample: int | None = None
    time_ns: int | None = None
    value: float | None = None
    unit: str | None = None
    steps: int | None = None
    outlier: bool | None = None
    note: str | None = None


COLUMNS = MeasuredRow._fields


def rows(report: ProfileReport) -> Iterator[MeasuredRow]:
    """Every row, configuration by configuration in the order of measurement. Events of a trace are not in it."""
    for cell in report.cells:
        key = {name: getattr(cell, name) for name in KEY}
        for kind, fields in _measured(cell):
            yield MeasuredRow(**key, kind=kind, **fields)


def _measured(cell: ProfileCell) -> Iterator[tuple[str, dict[str, Any]]]:
    duration = {"measure": "duration", "unit": "ns", "steps": 1}
    for process, first in enumerate(cell.first_call_ns):
        yield "first_call", {**duration, "process": process, "sample": 0, "value": first}
    for index, spent in enumerate(cell.warmup.durations_ns if cell.warmup is not None else []):
        yield "warmup", {**duration, "process": 0, "sample": index, "value": spent}
    counts: dict[int, int] = {}
    for step in cell.steps:
        index = counts.get(step.process, 0)
        counts[step.process] = index + 1
        place = {"process": step.process, "sample": index}
        yield "step", {**duration, **place, "value": step.duration_ns, "outlier": step.outlier}
    for name, samples in cell.phase_samples_ns.items():
        for index, spent in enumerate(samples):
            yield "phase", {**duration, "name": name, "sample": index, "value": spent}
    for name, found in (("step", cell.step), *cell.phases.items()):
        for statistic in STATISTICS if found is not None else ():
            value = getattr(found, f"{statistic}_ns")
            yield "statistic", {"name": name, "measure": statistic, "value": value, "unit": "ns"}
    for rate in cell.throughput:
        for statistic in ("per_second", "low", "high"):
            value = getattr(rate, statistic)
            yield "throughput", {"name": rate.unit, "measure": statistic, "value": value, "unit": "per_second"}
    if cell.memory is not None:
        yield from _memory(cell.memory)
    yield from _readings(cell)
    yield from _profiled(cell)
    for note in cell.notes:
        yield "note", {"note": note}
    if cell.failure is not None:
        failure = cell.failure
        yield "failure", {"name": failure.phase, "note": f"{failure.error}: {failure.message}"}


def _memory(memory: MemoryUse) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in MEMORY:
        value = getattr(memory, f"{name}_bytes")
        if value is not None:
            yield "memory", {"name": name, "measure": "size", "value": value, "unit": "bytes", "note": memory.source}
    for name in CURVES:
        points = zip(memory.curve.times_ns, getattr(memory.curve, f"{name}_bytes"), strict=False)
        for index, (time_ns, value) in enumerate(points):
            fields = {"name": name, "measure": "size", "unit": "bytes", "sample": index}
            yield "memory_curve", {**fields, "time_ns": time_ns, "value": value}


def _readings(cell: ProfileCell) -> Iterator[tuple[str, dict[str, Any]]]:
    for reading in cell.readings:
        for name, value in reading.values.items():
            said = {"note": value} if isinstance(value, str) else {"value": value}
            yield "reading", {"name": reading.probe, "measure": name, "process": reading.process, **said}
    for one in cell.unavailable:
        yield "unavailable", {"name": one.probe, "note": one.reason}


def _profiled(cell: ProfileCell) -> Iterator[tuple[str, dict[str, Any]]]:
    """Operators and modules, totals over ``steps``; fallbacks, of one step."""
    times = ("host", "self_host", "device", "self_device")
    for kind, found in (("operator", cell.operators), ("module", cell.modules)):
        for one in found:
            named = {"name": getattr(one, kind), "steps": cell.profiled_steps}
            note = getattr(one, "source", None) or f"{getattr(one, 'type', '')}, {getattr(one, 'phase', '')}"
            yield kind, {**named, "measure": "calls", "value": one.calls, "unit": "calls", "note": note}
            for measure in times:
                value = getattr(one, f"{measure}_ns")
                if value is not None:
                    yield kind, {**named, "measure": measure, "value": value, "unit": "ns", "note": note}
    for left in cell.fallbacks:
        named = {"name": left.operator, "steps": 1, "note": f"{left.verdict}, {left.method}"}
        for measure, field, unit in COSTS:
            amount = getattr(left, field)
            if amount is not None:
                yield "fallback", {**named, "measure": measure, "value": amount, "unit": unit}
