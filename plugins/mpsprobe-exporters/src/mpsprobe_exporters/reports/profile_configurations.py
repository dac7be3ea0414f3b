"""What compares the configurations of a profile: tables of all of them, bars of speed-up and of how steps divide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, TypeVar

from mpsprobe_exporters.document import Bar, Bars, Block, Column, Part, Section, Table, table
from mpsprobe_exporters.plain_text import distinct, one_line
from mpsprobe_exporters.reports import configurations, profile_advice
from mpsprobe_exporters.units import BEYOND, amount, duration, percent

if TYPE_CHECKING:
    from mpsprobe.schemas import MemoryUse, ProfileCell, ProfileReport
    from mpsprobe_exporters.document import Fields
    from mpsprobe_exporters.reports.trace_summary import Division

Value = TypeVar("Value")

FAILED = "failed"
MOST_ROWS = 40
NAMED = ("workload", "phase", "device", "batch", "seq", "dtype")  # what makes a configuration
SPREAD = "scaled median absolute deviation as a share of the median"
SOURCES = {"allocator": "counted by the allocator", "sampled": "largest of samples"}
KNOWN_PHASES = {"forward": 1, "backward": 2, "optimizer": 3}
DIVISIONS = (
    (1, "kernels", "a kernel runs on the device"),
    (3, "copies", "no kernel, but a copy between memories"),
    (4, "fallbacks", "the device waits while an operator runs on the CPU"),
    (2, "operators on the host", "none of these, while the host is inside an operator"),
    (8, "rest", "Python, and waiting"),
)
# What a table shows of each configuration; the highest rank goes first where there is no room.
FIELDS: Fields[ProfileReport, ProfileCell] = (
    (Column("workload"), lambda report, cell: cell.workload if _several(report, "name") else None),
    (Column("phase", rank=1), lambda report, cell: cell.phase if _several(report, "phase") else None),
    (Column("device"), lambda _, cell: cell.device),
    (Column("batch", "number", about="samples in a step", rank=2), lambda _, cell: cell.batch_size),
    (Column("seq", "number", about="tokens, frames, … in a sample", rank=5), lambda _, cell: cell.seq_len),
    (
        Column("dtype", rank=7),
        lambda report, cell: configurations.dtype(cell) if configurations.several_dtypes(report) else None,
    ),
    (
        Column("first call", "time", about="with its compilations; the longest of the processes", rank=9),
        lambda _, cell: max(cell.first_call_ns, default=None),
    ),
    (
        Column("step", "time", about="median of the timed steps"),
        lambda _, cell: cell.step.median_ns if cell.step else FAILED if cell.failure else None,
    ),
    (Column("95% interval", about="of the median, by bootstrap", rank=8), lambda _, cell: interval(cell)),
    (Column("spread", "share", about=SPREAD, rank=10), lambda _, cell: None if cell.step is None else cell.step.spread),
    (Column("samples/s", "number", rank=2), lambda _, cell: configurations.rate(cell, "samples")),
    (Column("tokens/s", "number", rank=7), lambda _, cell: configurations.rate(cell, "tokens")),
    (
        Column("speed-up", "number", about="how many times as fast as the baseline", rank=2),
        lambda report, cell: (configurations.speed_up(report, cell) or [None])[0],
    ),
    (
        Column("peak memory", "bytes", about="allocated, where the device says so; else of the process", rank=4),
        lambda _, cell: peak(cell)[1],
    ),
)
PROCESSES: Fields[None, tuple[str, list[float]]] = (
    (Column("configuration"), lambda _, row: row[0]),
    (Column("processes", "number", rank=2), lambda _, row: len(row[1])),
    (Column("fastest", "time", rank=1), lambda _, row: row[1][0]),
    (Column("slowest", "time"), lambda _, row: row[1][-1]),
    (Column("apart", "share"), lambda _, row: row[1][-1] / row[1][0] - 1),
)
MEMORY: Fields[ProfileReport, tuple[str, ProfileCell, MemoryUse]] = (
    (Column("configuration"), lambda _, row: row[0]),
    (Column("allocated", "bytes", about="what tensors take"), lambda _, row: row[2].peak_allocated_bytes),
    (Column("reserved", "bytes", about="what the allocator holds", rank=2), lambda _, row: row[2].peak_reserved_bytes),
    (Column("process", "bytes", about="the whole process", rank=1), lambda _, row: row[2].peak_process_bytes),
    (Column("how it is known", rank=3), lambda _, row: SOURCES[row[2].source]),
    (Column("the device has", "bytes", rank=4), lambda report, row: configurations.device_memory(report, row[1])),
)


def sections(report: ProfileReport, divided: Sequence[Division | None]) -> list[Section]:
    """``divided``: how the profiled steps of each configuration divide, where it has a trace."""
    faster = _speed_ups(report)
    parts = [*_phase_bars(report), *_divisions(report, divided)]
    compared = "Overview" if faster and len(faster.rows) > 1 else ""  # a page has a tile for a single one
    title = f"Times as fast as {one_line(report.plan.baseline or '', 20)}"
    processes = [(label, medians) for label, _, medians in _labelled(report, report.cells, _medians) if medians[0] > 0]
    memory = _labelled(report, report.cells, lambda cell: cell.memory)
    counted = any(use.peak_allocated_bytes is not None for _, _, use in memory)  # else the first table has the peaks
    return [
        Section("Configurations", table(FIELDS, report, report.cells, filtered=len(report.cells) > 8)),
        Section(title, [faster] if faster else [], view=compared),
        Section("Where a step goes", parts, depth="page"),
        Section("Phases of a step", _phases(report), view=""),
        Section("Medians of the processes", table(PROCESSES, None, processes, most=MOST_ROWS)),
        Section("Peak memory", table(MEMORY, report, memory if counted else [], most=MOST_ROWS), view="Memory"),
    ]


def _several(report: ProfileReport, field: str) -> bool:
    return len({getattr(workload, field) for workload in report.workloads}) > 1


def interval(cell: ProfileCell) -> str | None:
    return None if cell.step is None else f"{duration(cell.step.low_ns)} to {duration(cell.step.high_ns)}"


def peak(cell: ProfileCell) -> tuple[str, int | None]:
    """The most memory that tensors took, else that the process took, and which of them it is."""
    use = cell.memory
    if use is None or use.peak_allocated_bytes is None:
        return "of the process", None if use is None else use.peak_process_bytes
    return "allocated", use.peak_allocated_bytes


def _labelled(
    report: ProfileReport, cells: Iterable[ProfileCell], of: Callable[[ProfileCell], Value | None]
) -> list[tuple[str, ProfileCell, Value]]:
    """The configurations of which something is known, with their names and what it is."""
    known = [(cell, value) for cell in cells if (value := of(cell)) is not None]
    labels = distinct([configurations.name(report, cell) for cell, _ in known])
    return [(label, cell, value) for label, (cell, value) in zip(labels, known, strict=True)]


def _speed_ups(report: ProfileReport) -> Bars | None:
    """A bar for each configuration that the baseline ran too, training first as in PyTorch's announcement of MPS."""
    others = [cell for cell in report.cells if cell.device != report.plan.baseline]
    ordered = sorted(others, key=lambda cell: cell.phase != "training")
    compared = _labelled(report, ordered, lambda cell: configurations.speed_up(report, cell))
    if not compared:
        return None
    largest = max(1.0, *(times for _, _, (times, _, _) in compared))
    several = len({cell.phase for _, cell, _ in compared}) > 1
    rows = []
    for label, cell, (times, low, high) in compared:
        part = Part(times / largest, 2 if several and cell.phase == "training" else 1)
        rows.append(Bar(label, [part], f"{amount(times)} x ({amount(low)} to {amount(high)})"))
    legend = [(1, "inference"), (2, "training")] if several else []
    return Bars(rows, "In brackets, what both 95% intervals allow. The line is the baseline", legend, 1 / largest)


def _phases_ns(cell: ProfileCell) -> float | None:
    total = sum(min(phase.median_ns, BEYOND) for phase in cell.phases.values())
    return total if total > 0 else None


def _phase_bars(report: ProfileReport) -> Iterator[Block]:
    """Each configuration's step as a bar of its phases, all on one scale."""
    timed = [(cell, total) for cell in report.cells if (total := _phases_ns(cell))]
    if not timed:
        return
    largest = max(total for _, total in timed)
    keys = list(dict.fromkeys(key for cell, _ in timed for key in cell.phases))
    colors = {key: KNOWN_PHASES.get(key, 4 + index % 5) for index, key in enumerate(keys)}
    rows = []
    for cell, total in timed:
        parts = [
            Part(phase.median_ns / largest, colors[key], f"{one_line(key, 40)}: {_share(phase.median_ns, total)}")
            for key, phase in cell.phases.items()
        ]
        rows.append(Bar(configurations.name(report, cell), parts, duration(total)))
    legend = [(color, one_line(key, 40)) for key, color in colors.items()]
    yield Bars(rows, "Medians of the phases; synchronising between them makes a step take longer", legend)


def _divisions(report: ProfileReport, divided: Sequence[Division | None]) -> Iterator[Block]:
    """How the profiled steps divide between the device and the host, as the traces show."""
    traced = [(cell, one) for cell, one in zip(report.cells, divided, strict=True) if one is not None]
    if not traced:
        return
    rows = []
    used = set()
    for cell, one in traced:
        spent = (one.kernel_ns, one.copy_ns, one.fallback_ns, one.operator_ns, one.other_ns)
        used |= {index for index, part in enumerate(spent) if part}
        parts = [
            Part(part / one.total_ns, color, f"{title}: {_share(part, one.total_ns)}")
            for part, (color, title, _) in zip(spent, DIVISIONS, strict=True)
        ]
        inside = percent(one.operator_ns / one.total_ns)
        said = f"{percent(one.busy)} device" if one.kernels else f"{inside} operators"
        rows.append(Bar(configurations.name(report, cell), parts, said))
    slow = any(profile_advice.is_slow_mode(cell) for cell, _ in traced)
    caption = "The profiled steps by what goes on in them"
    caption += "; operators were timed one by one, each synchronised, which adds waiting" if slow else ""
    legend = [(color, f"{title}: {about}") for index, (color, title, about) in enumerate(DIVISIONS) if index in used]
    yield Bars(rows, caption, legend)


def _share(spent: float, total: float) -> str:
    """``14.5 ms (30%)``."""
    return f"{duration(spent)} ({percent(spent / total)})"


def _phases(report: ProfileReport) -> list[Block]:
    timed = _labelled(report, report.cells, _phases_ns)
    keys = list(dict.fromkeys(key for _, cell, _ in timed for key in cell.phases))
    rows = [
        (label, *(_share(cell.phases[key].median_ns, total) if key in cell.phases else None for key in keys))
        for label, cell, total in timed
    ]
    columns = (Column(one_line(key, 20), rank=rank) for rank, key in enumerate(keys, start=1))
    return [Table((Column("configuration"), *columns), rows, most=MOST_ROWS)] if rows else []


def _medians(cell: ProfileCell) -> list[float] | None:
    """Of the steps of each process, where there are several."""
    steps: dict[int, list[int]] = {}
    for step in cell.steps:
        steps.setdefault(step.process, []).append(min(step.duration_ns, BEYOND))
    return sorted(float(median(spent)) for spent in steps.values()) if len(steps) > 1 else None
