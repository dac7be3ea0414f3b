"""Traces for the tests of ``import``, written as torch.profiler writes them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mpsprobe.schemas import OperatorTime, ProfileCell, ProfileReport
from mpsprobe_devices.traces.report import DEFAULT_LIMIT, import_trace

Event = dict[str, Any]


def x(name: str, category: str, ts: float, dur: float, **more: Any) -> Event:
    """A complete event; what is not ``pid`` or ``tid`` becomes an argument, ``_`` standing for a space."""
    place = {key: more.pop(key) for key in ("pid", "tid") if key in more}
    args = {key.replace("_", " "): value for key, value in more.items()}
    event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, **place}
    return {**event, "args": args} if args else event


def memory(ts: float, allocated: int, device: int = 0, **more: Any) -> Event:
    sizes = {"Total Allocated": allocated, "Total Reserved": 0, "Device Type": device, "Device Id": -1, "Addr": 1}
    place = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts}
    return {**place, "args": {**sizes, **more}}


def write(folder: Path, events: Iterable[object], **head: object) -> Path:
    path = folder / "run.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, **head, "traceEvents": list(events)}), encoding="utf-8")
    return path


def read(folder: Path, *events: object, limit: int = DEFAULT_LIMIT, **head: object) -> ProfileReport:
    """The report of a file with ``events``; it survives being written and read again."""
    report = import_trace(write(folder, events, **head), limit)
    assert ProfileReport.model_validate_json(report.model_dump_json()) == report
    return report


def cell(folder: Path, *events: object, **more: Any) -> ProfileCell:
    [found] = read(folder, *events, **more).cells
    return found


def operators(found: ProfileCell) -> dict[str, OperatorTime]:
    return {one.operator: one for one in found.operators}


def packed(path: Path, size: int | None = None) -> Path:
    """``path`` compressed; its first ``size`` bytes where that is given."""
    target = path.with_name(path.name + ".gz")
    target.write_bytes(gzip.compress(path.read_bytes())[:size])
    return target
