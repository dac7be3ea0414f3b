"""What a profile says, in sentences and rows. Every format takes its words from here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mpsprobe_exporters.answer import made_with, setting
from mpsprobe_exporters.plain_text import distinct, one_line, plural
from mpsprobe_exporters.units import amount, byte_size, duration, number, percent

if TYPE_CHECKING:
    from mpsprobe.schemas import DeviceInfo, DurationStatistics, ProfileCell, ProfileReport, WorkloadInfo

INTERRUPTED = "Interrupted: what was measured before is here"
FAILED = "failed"
# One in twenty is what Tukey's fences let through of heavy tails; more are a pattern.
OUTLIERS = 0.05
MOST_PLACES = 2  # configurations up to which a remark is repeated for each


class Row(NamedTuple):
    """One configuration, as a table shows it; ``""`` for what is not known."""

    workload: str
    phase: str
    device: str
    batch: str
    seq: str
    first_call: str
    step: str
    interval: str
    spread: str
    samples: str
    tokens: str
    speed_up: str


TITLES = Row(
    "workload",
    "phase",
    "device",
    "batch",
    "seq",
    "first call",
    "step",
    "95 % interval",
    "spread",
    "samples/s",
    "tokens/s",
    "speed",
)


def short_answer(report: ProfileReport) -> str:
    """The profile in a sentence without a full stop."""
    measured = [(cell, cell.step) for cell in report.cells if cell.step is not None]
    if not measured:
        return f"No {_what(report.workloads[0])} was measured to its end"
    first, step = measured[0]
    text = f"A {_what(report.workload_of(first))} takes {duration(step.median_ns)} on {_device(report, first)}"
    rates = {one.unit: one.per_second for one in first.throughput}
    if rates:
        text += f": {amount(rates['samples'])} samples/s" if "samples" in rates else ""
    others = [_faster(report, first.device, cell) for cell, _ in measured if cell.device != first.device]
    compared = next((one for one in others if one), None)
    return f"{text}; {compared}" if compared else text


def _what(workload: WorkloadInfo) -> str:
    return f"{'training step' if workload.phase == 'training' else 'step'} of {one_line(workload.name)}"


def _faster(report: ProfileReport, device: str, other: ProfileCell) -> str | None:
    """``3.1 times as fast as the CPU``, for ``device`` against a cell of the baseline."""
    first = twin(report, other, device)
    if report.plan.baseline != other.device or first is None or first.step is None or other.step is None:
        return None
    if first.step.median_ns <= 0:  # a clock that did not move: nothing to compare by
        return None
    return f"{amount(other.step.median_ns / first.step.median_ns)} times as fast as {_device(report, other)}"


def twin(report: ProfileReport, cell: ProfileCell, device: str) -> ProfileCell | None:
    """The same configuration on another device."""
    wanted = _key(cell)
    return next((other for other in report.cells if other.device == device and _key(other) == wanted), None)


def _key(cell: ProfileCell) -> tuple[object, ...]:
    return cell.workload, cell.phase, cell.batch_size, cell.seq_len, cell.dtype, cell.autocast


def _device(report: ProfileReport, cell: ProfileCell) -> str:
    info = next((one for one in report.devices if one.type == cell.device), None)
    if info is None or not info.name:
        return one_line(cell.device)
    shared = sum(one.name == info.name for one in report.devices) > 1  # of a Mac, the GPU and the CPU have one name
    return f"{one_line(cell.device, 20)} ({one_line(info.name)})" if shared else one_line(info.name)


def workload_lines(report: ProfileReport) -> list[str]:
    """What was run: ``distilbert (DistilBertModel, 66.4 M parameters), inference, float32, 20 timed steps``."""
    return [_workload_line(report, workload) for workload in report.workloads]


def _workload_line(report: ProfileReport, workload: WorkloadInfo) -> str:
    counted = bool(workload.parameters) or report.environment is not None  # an imported trace does not tell: no zero
    compiled = ["torch.compile"] if report.plan.compile else []
    parts = setting(workload, compiled=compiled, counted=counted)
    return ", ".join([*parts, plural(report.plan.steps, "timed step")])


def device_lines(report: ProfileReport) -> list[str]:
    """Each device with its memory, capabilities and caveats."""
    return [_device_line(info) for info in report.devices]


def _device_line(info: DeviceInfo) -> str:
    facts = [byte_size(info.memory_bytes)] if info.memory_bytes else []
    facts += [f"{one_line(name, 40)} {one_line(value, 80)}" for name, value in info.capabilities.items()]
    facts += [one_line(caveat) for caveat in info.caveats]
    return f"{one_line(info.type)}: {one_line(info.name)}" + (f" ({', '.join(facts)})" if facts else "")


def method_line(report: ProfileReport) -> str:
    """With what it was measured."""
    environment = report.environment
    if environment is None:
        return "Measured elsewhere"
    return f"Measured with {made_with(environment)}"


def rows(report: ProfileReport) -> list[Row]:
    """One row for each configuration, in the order of measurement."""
    return [row(report, cell) for cell in report.cells]


def row(report: ProfileReport, cell: ProfileCell) -> Row:
    """One configuration."""
    rates = {one.unit: amount(one.per_second) for one in cell.throughput}
    step = cell.step
    return Row(
        workload=one_line(cell.workload, 40) if len({one.name for one in report.workloads}) > 1 else "",
        phase=cell.phase if len({one.phase for one in report.workloads}) > 1 else "",
        device=one_line(cell.device, 20),
        batch="" if cell.batch_size is None else number(cell.batch_size),
        seq="" if cell.seq_len is None else number(cell.seq_len),
        first_call=duration(cell.first_call_ns[0]) if cell.first_call_ns else "",
        step=FAILED if step is None else duration(step.median_ns),
        interval="" if step is None else f"{duration(step.low_ns)} to {duration(step.high_ns)}",
        spread="" if step is None else percent(step.spread),
        samples=rates.get("samples", ""),
        tokens=rates.get("tokens", ""),
        speed_up=_speed_up(report, cell),
    )


def _speed_up(report: ProfileReport, cell: ProfileCell) -> str:
    baseline = report.plan.baseline
    base = twin(report, cell, baseline) if baseline is not None else None
    if base is None or base.step is None or cell.step is None or cell.step.median_ns <= 0:
        return ""
    return f"{amount(base.step.median_ns / cell.step.median_ns)} x"


def shown_columns(found: list[Row]) -> list[int]:
    """The columns in which anything stands."""
    return [index for index in range(len(TITLES)) if any(row[index] for row in found)]


def phase_lines(report: ProfileReport) -> list[str]:
    """How a step divides, for each configuration that has phases."""
    lines = []
    for cell in report.cells:
        total = sum(phase.median_ns for phase in cell.phases.values())
        if total:
            parts = (f"{one_line(name, 40)} {share(phase, total)}" for name, phase in cell.phases.items())
            lines.append(f"{configuration(report, cell)}: {', '.join(parts)}")
    return lines


def share(phase: DurationStatistics, total: float) -> str:
    """``14.5 ms (30%)``."""
    return f"{duration(phase.median_ns)} ({percent(phase.median_ns / total)})"


def remarks(report: ProfileReport) -> list[str]:
    """What a reader should know of the figures: failures, noise, outliers, what was not measured."""
    lines = [] if report.complete else [INTERRUPTED]
    lines += [one_line(note) for notes in _notes(report) for note in notes]
    where: dict[str, list[str]] = {}
    for cell in report.cells:
        for text in cell_remarks(cell):
            where.setdefault(text, []).append(configuration(report, cell))
    for text, places in where.items():
        if len(places) > MOST_PLACES:
            lines.append(f"{plural(len(places), 'configuration')}: {text}")
        else:
            lines += [f"{place}: {text}" for place in places]
    return lines


def _notes(report: ProfileReport) -> Iterable[list[str]]:
    yield from (workload.notes for workload in report.workloads)
    yield report.notes


def cell_remarks(cell: ProfileCell) -> Iterable[str]:
    """What a reader should know of the figures of one configuration, beyond what there is to do about them."""
    if cell.failure is not None:
        error = f"{one_line(cell.failure.error)}: {one_line(cell.failure.message)}"
        yield f"stopped in {one_line(cell.failure.phase)}: {error}"
    if cell.step is not None and cell.step.outliers > 0 and not has_many_outliers(cell.step):
        yield f"{plural(cell.step.outliers, 'outlier')} among {plural(cell.step.count, 'step')}, kept in the figures"
    yield from map(one_line, cell.notes)
    for one in cell.unavailable:
        yield f"{one_line(one.probe, 40)} was not measured: {one_line(one.reason)}"


def has_many_outliers(step: DurationStatistics) -> bool:
    """Whether there are more of them than heavy tails have."""
    return step.outliers > OUTLIERS * step.count and step.outliers > 1


def configuration(report: ProfileReport, cell: ProfileCell) -> str:
    """``cuda, batch 8, sequence 128``; with workload and phase where there are several."""
    parts = [f"{one_line(cell.workload)} {cell.phase}"] if len(report.workloads) > 1 else []
    parts.append(one_line(cell.device, 20))
    parts += [f"batch {number(cell.batch_size)}"] if cell.batch_size is not None else []
    parts += [f"sequence {number(cell.seq_len)}"] if cell.seq_len is not None else []
    return ", ".join(parts)


def labels(report: ProfileReport, cells: Sequence[ProfileCell]) -> list[str]:
    """The names of configurations that stand below each other, without the parts that all of them share."""
    return distinct([configuration(report, cell) for cell in cells])
