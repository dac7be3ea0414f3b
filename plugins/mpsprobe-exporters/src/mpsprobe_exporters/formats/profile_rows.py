"""A profile as one long table: a row for each thing that was measured. CSV and Parquet hold the same rows.

Parquet, for pandas, polars and DuckDB, has them with types, and the rest as metadata.
"""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import MissingPackage
from mpsprobe_exporters.reports.configurations import KEY
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas import ModuleTime, OperatorTime, ProfileCell, ProfileReport
    from mpsprobe.schemas.report import Report

MEMORY = ("allocated", "reserved", "peak_allocated", "peak_reserved", "peak_process")
CURVES = ("allocated", "reserved", "process")
COSTS = (("calls", "calls", "calls"), ("duration", "duration_ns", "ns"), ("copied", "bytes", "bytes"))
STATISTICS = ("median", "low", "high", "minimum", "maximum")
TIMES = ("host", "self_host", "device", "self_device")
MEASURED = ("kind", "name", "measure", "process", "sample", "time_ns", "value", "unit", "steps", "outlier", "note")
COLUMNS = (*KEY, *MEASURED)
"""What each holds is in the documentation: docs/how-to/compare.md."""
METADATA = b"mpsprobe"
LARGEST = 2**63 - 1
WHOLE = ("batch_size", "seq_len", "process", "sample", "time_ns", "steps")


def rows(report: ProfileReport) -> Iterator[dict[str, Any]]:
    """Every row, configuration by configuration in the order of measurement. Events of a trace are not in it."""
    for cell in report.cells:
        key = {name: getattr(cell, name) for name in KEY}
        yield from ({**key, **fields} for fields in _measured(cell) if fields.get("value", 0) is not None)


def _measured(cell: ProfileCell) -> Iterator[dict[str, Any]]:
    """What is measured of a cell; a ``value`` of ``None`` was not."""
    duration = {"measure": "duration", "unit": "ns", "steps": 1}
    for process, spent in enumerate(cell.first_call_ns):
        yield {"kind": "first_call", **duration, "process": process, "sample": 0, "value": spent}
    for index, spent in enumerate(cell.warmup.durations_ns if cell.warmup is not None else []):
        yield {"kind": "warmup", **duration, "process": 0, "sample": index, "value": spent}
    counts: dict[int, int] = {}
    for step in cell.steps:
        index = counts.get(step.process, 0)
        counts[step.process] = index + 1
        sample = {"process": step.process, "sample": index, "value": step.duration_ns}
        yield {"kind": "step", **duration, **sample, "outlier": step.outlier}
    for name, samples in cell.phase_samples_ns.items():
        for index, spent in enumerate(samples):
            yield {"kind": "phase", **duration, "name": name, "sample": index, "value": spent}
    for name, statistics in (("step", cell.step), *cell.phases.items()):
        for measure in STATISTICS if statistics is not None else ():
            value = getattr(statistics, f"{measure}_ns")
            yield {"kind": "statistic", "name": name, "measure": measure, "value": value, "unit": "ns"}
    for rate in cell.throughput:
        for measure in ("per_second", "low", "high"):
            value = getattr(rate, measure)
            yield {"kind": "throughput", "name": rate.unit, "measure": measure, "value": value, "unit": "per_second"}
    if (memory := cell.memory) is not None:
        size: dict[str, Any] = {"measure": "size", "unit": "bytes"}
        for name in MEMORY:
            value = getattr(memory, f"{name}_bytes")
            yield {"kind": "memory", "name": name, **size, "value": value, "note": memory.source}
        for name in CURVES:
            points = zip(memory.curve.times_ns, getattr(memory.curve, f"{name}_bytes"), strict=False)
            for index, (time_ns, value) in enumerate(points):
                point = {"name": name, **size, "sample": index, "time_ns": time_ns, "value": value}
                yield {"kind": "memory_curve", **point}
    for reading in cell.readings:
        for name, value in reading.values.items():
            place: dict[str, Any] = {"name": reading.probe, "measure": name, "process": reading.process}
            yield {"kind": "reading", **place, "note" if isinstance(value, str) else "value": value}
    for probe in cell.unavailable:
        yield {"kind": "unavailable", "name": probe.probe, "note": probe.reason}
    yield from _profiled(cell)
    for note in cell.notes:
        yield {"kind": "note", "note": note}
    if (failure := cell.failure) is not None:
        yield {"kind": "failure", "name": failure.phase, "note": f"{failure.error}: {failure.message}"}


def _profiled(cell: ProfileCell) -> Iterator[dict[str, Any]]:
    """Operators and modules, totals over ``steps``; fallbacks, of one step."""
    for operator in cell.operators:
        yield from _times({"kind": "operator", "name": operator.operator, "note": operator.source}, operator, cell)
    for module in cell.modules:
        note = f"{module.type}, {module.phase}"
        yield from _times({"kind": "module", "name": module.module, "note": note}, module, cell)
    for left in cell.fallbacks:
        shared = {"kind": "fallback", "name": left.operator, "steps": 1, "note": f"{left.verdict}, {left.method}"}
        for measure, field, unit in COSTS:
            yield {**shared, "measure": measure, "value": getattr(left, field), "unit": unit}


def _times(named: dict[str, str], total: OperatorTime | ModuleTime, cell: ProfileCell) -> Iterator[dict[str, Any]]:
    shared = {**named, "steps": cell.profiled_steps}
    yield {**shared, "measure": "calls", "value": total.calls, "unit": "calls"}
    for measure in TIMES:
        yield {**shared, "measure": measure, "value": getattr(total, f"{measure}_ns"), "unit": "ns"}


class ParquetExporter:
    """One table. Its schema's metadata holds, under ``mpsprobe``, the report as JSON without its cells."""

    def __init__(self) -> None:
        # Looked for and not imported: it takes a tenth of a second, and the report may take hours before it is needed.
        if importlib.util.find_spec("pyarrow") is None:
            raise MissingPackage("the exporter 'parquet'", "mpsprobe-exporters[parquet]")

    def render(self, report: Report) -> bytes:
        import pyarrow
        import pyarrow.parquet

        read: ProfileReport = supported_report(report, "parquet")
        rest = json.dumps({**read.model_dump(mode="python"), "cells": []})
        types = dict.fromkeys(WHOLE, pyarrow.int64()) | {"value": pyarrow.float64(), "outlier": pyarrow.bool_()}
        fields = [(name, types.get(name, pyarrow.string())) for name in COLUMNS]
        held = [{name: _held(value, name) for name, value in row.items()} for row in rows(read)]
        schema = pyarrow.schema(fields, metadata={METADATA: rest.encode("ascii")})
        stream = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(held, schema=schema), stream, compression="zstd")
        return stream.getvalue()


def _held(value: Any, name: str) -> Any:
    """``value`` as the column ``name`` can hold it: numbers of 64 bits, text without lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST:
        return None  # no clock or allocator gives it; a float would be another number
    return float(value) if name == "value" and value is not None else value  # Arrow refuses what a double rounds
