"""The configurations of a profile: their names, their twins on other devices, and how many times as fast they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.units import BEYOND, number

if TYPE_CHECKING:
    from mpsprobe.schemas import ConfigurationKey, ProfileCell, ProfileReport

KEY = ("workload", "phase", "device", "batch_size", "seq_len", "dtype", "autocast")  # what makes a configuration


def name(report: ProfileReport, cell: ProfileCell) -> str:
    """``cuda, batch 8, sequence 128``; with workload, phase and dtype where there are several."""
    parts = [f"{one_line(cell.workload)} {cell.phase}"] if len(report.workloads) > 1 else []
    parts += [one_line(cell.device, 20), *sizes(cell)]
    if several_dtypes(report):
        parts += filter(None, [dtype(cell)])
    return ", ".join(parts)


def several_dtypes(report: ProfileReport) -> bool:
    return len({(cell.dtype, cell.autocast) for cell in report.cells}) > 1


def sizes(cell: ConfigurationKey | ProfileCell) -> Iterator[str]:
    """``batch 8``, ``sequence 128``: those that are not the workload's own."""
    for what, count in (("batch", cell.batch_size), ("sequence", cell.seq_len)):
        if count is not None:
            yield f"{what} {number(count)}"


def dtype(cell: ConfigurationKey | ProfileCell) -> str:
    """``float32``, ``float32 autocast bfloat16``."""
    parts = [one_line(cell.dtype, 40) if cell.dtype else "", f"autocast {cell.autocast}" if cell.autocast else ""]
    return one_line(" ".join(parts), 80)


def twin(report: ProfileReport, cell: ProfileCell, device: str) -> ProfileCell | None:
    wanted = but_for("device", cell)
    return next((cell for cell in report.cells if cell.device == device and but_for("device", cell) == wanted), None)


def but_for(what: str, cell: ProfileCell) -> tuple[object, ...]:
    return tuple(getattr(cell, key) for key in KEY if key != what)


def rate(cell: ProfileCell, unit: str) -> float | None:
    return next((one.per_second for one in cell.throughput if one.unit == unit), None)


def device_memory(report: ProfileReport, cell: ProfileCell) -> int | None:
    return next((device.memory_bytes for device in report.devices if device.type == cell.device), None)


def speed_up(report: ProfileReport, cell: ProfileCell) -> tuple[float, float, float] | None:
    """How many times as fast as the baseline: its median step by this one's, and the range that both intervals allow.

    ``None`` where there is no baseline, or a clock that did not move.
    """
    base = twin(report, cell, report.plan.baseline) if report.plan.baseline is not None else None
    if base is None or base.step is None or cell.step is None:
        return None
    old, own = base.step, cell.step
    if min(old.median_ns, old.low_ns, old.high_ns, own.median_ns, own.low_ns, own.high_ns) <= 0:
        return None
    times = (old.median_ns / own.median_ns, old.low_ns / own.high_ns, old.high_ns / own.low_ns)
    return min(times[0], BEYOND), min(times[1], BEYOND), min(times[2], BEYOND)
