"""From a trace file to a report."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mpsprobe.errors import ReportError
from mpsprobe.importing.cells import NO_NAME, Facts, make_cell
from mpsprobe.importing.columns import MOST_DETAILS, Columns, cleaned
from mpsprobe.importing.events import MOST_EVENTS, Reader
from mpsprobe.importing.stream import HINT, TraceFile
from mpsprobe.importing.tensorflow import Translation
from mpsprobe.importing.xplane import XSpaceFile
from mpsprobe.schemas.profile import DeviceInfo, ProfileCell, ProfilePlan, ProfileReport
from mpsprobe.schemas.run import WorkloadInfo
from mpsprobe.suggestions import printable

DEFAULT_LIMIT = 1_000_000  # events that the report's trace keeps
SUFFIXES = re.compile(r"((\.pt)?\.trace)?\.json(\.gz)?$|\.gz$|(\.xplane)?\.pb$", re.IGNORECASE)
NOT_RECORDED = "not recorded"
UNDER_A_PROFILER = "imported from a trace: the steps ran under a profiler, which makes them slower"


def import_trace(
    path: Path, limit: int = DEFAULT_LIMIT, tell: Callable[[int], None] = lambda read: None
) -> ProfileReport:
    """The report of the trace in the file ``path``, plain or compressed with gzip.

    Args:
        limit: how many events the report's trace keeps; operators, modules and steps are of all of them.
        tell: called with the number of bytes of the file that were read since its last call.

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
    reader.finish()
    shown = printable(str(path))
    found = [(facts, columns) for facts, columns in parts.cells if len(columns) or reader.timed.get(facts.timed)]
    if not found:
        raise ReportError(f"{shown} is a trace, but has no event with a duration", HINT)
    notes = _notes(source, reader, sum(columns.undescribed for _, columns in found))
    name = cleaned(SUFFIXES.sub("", path.name)) or NO_NAME
    cells, infos = [], []
    for facts, columns in found:
        cell, info = make_cell(facts, columns, reader, name, _device(source.head, reader))
        own = [] if facts.timed in reader.timed else [UNDER_A_PROFILER]
        cells.append(cell.model_copy(update={"notes": [*own, *cell.notes, *notes]}))
        infos.append(info)
    return _report(source.head, cells, infos)


class _Parts:
    """Which process of the file belongs to which cell: as a file of ``mpsprobe export`` says, else all to one."""

    def __init__(self, source: TraceFile | XSpaceFile, limit: int) -> None:
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
        for one in _of_ours(self._source.head, "cells"):
            if isinstance(one, dict):
                columns, numbers = Columns(self._limit), one.get("processes")
                self.cells.append((Facts.model_validate(one), columns))
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
    found = about.get(key) if isinstance(about, dict) else None
    return found if isinstance(found, list) else []


def _device(head: Mapping[str, Any], reader: Reader) -> str:
    """The device's type by what started its kernels; ``cpu`` is only taken where there are none."""
    known = [name for name, _ in reader.launched_by.most_common() if name != "gpu"]
    if known:
        return known[0]
    return "cuda" if head.get("deviceProperties") else "gpu"


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
        notes=[cleaned(one) for one in _of_ours(head, "notes") if isinstance(one, str)],
    )


def _described(head: Mapping[str, Any], device: str) -> DeviceInfo:
    for one in _of_ours(head, "devices"):
        if isinstance(one, dict) and one.get("type") == device and isinstance(one.get("name"), str):
            return DeviceInfo(type=device, name=cleaned(one["name"]))
    properties = head.get("deviceProperties")
    first = properties[0] if isinstance(properties, list) and properties and device != "cpu" else None
    if not isinstance(first, dict):
        return DeviceInfo(type=device, name=NOT_RECORDED)
    name, size = first.get("name"), first.get("totalGlobalMem")
    return DeviceInfo(
        type=device,
        name=cleaned(name) if isinstance(name, str) and name else NOT_RECORDED,
        memory_bytes=size if isinstance(size, int) and size > 0 else None,
    )


def _notes(source: TraceFile | XSpaceFile, reader: Reader, undescribed: int) -> list[str]:
    """What a reader should know of how the file was read."""
    notes = []
    if source.problem is not None:
        notes.append(f"only the first {reader.events:,} events of the file could be read: {source.problem}")
    for reason, count in reader.skipped.items():
        notes.append(f"events {reason}, left out: {count:,}")
    if undescribed:
        notes.append(f"events without their details, of which there are more than {MOST_DETAILS:,}: {undescribed:,}")
    return notes
