"""What was measured of each configuration of a profile: readings, fallbacks, operators, modules, kernels, steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import backends
from mpsprobe_exporters.document import Bar, Bars, Column, Paragraph, Part, Section, table
from mpsprobe_exporters.module_names import ROOT, fold_names
from mpsprobe_exporters.plain_text import listed, one_line, plural, shortened
from mpsprobe_exporters.reports.profile_configurations import SPREAD
from mpsprobe_exporters.reports.trace_summary import totals
from mpsprobe_exporters.units import BEYOND, amount, between, byte_size, duration, fraction, reading, split_unit

if TYPE_CHECKING:
    from mpsprobe.schemas import (
        ClassAgainst,
        DurationStatistics,
        FallbackCost,
        ModuleTime,
        OperatorTime,
        ProfileCell,
        ProfileReport,
    )
    from mpsprobe_exporters.document import Block, Fields
    from mpsprobe_exporters.reports.trace_summary import Total

    Spent = tuple[str, float, int]
    Draw = Callable[[ProfileCell], Iterable[Block]]

MOST_OPERATORS, MOST_MODULES, MOST_FALLBACKS = 10, 8, 12  # on a terminal and in Markdown
MOST_DETAILED = 3  # configurations that are looked into there
MOST_BARS = 24
MOST_NAMED = 3
# What a probe says about its own work, not of the model's.
OWN = frozenset({"source", "events", "steps"})
NATIVE = "the release, of torch or of the backend's plugin, that has a kernel"


def sections(report: ProfileReport) -> Iterator[Section]:
    yield from _each(report, "Readings", "Probes", _readings)
    yield from _each(report, f"Operators that leave {backends.profiled(report)}, in one step", "Fallbacks", _fallbacks)
    yield from _each(report, "Operators by their own time, in one step", "Operators", _operators)
    yield from _each(report, "Against what the chip was predicted to take, in one step", "Chip", _against_chip)
    yield from _each(report, "Modules, in one step", "", _modules)
    for index, cell in enumerate(report.cells):
        if cell.trace is not None:
            kernels = totals(cell.trace, "kernel")
            rows = table(KERNELS, sum(kernel.total_ns for kernel in kernels), kernels, filtered=True)
            yield Section("Kernels, over all profiled steps", rows, "Kernels", "page", index)
            moved = table(COPIES, None, totals(cell.trace, "copy"))
            yield Section("Copies between memories, over all profiled steps", moved, "Kernels", "page", index)
        yield Section("", list(_statistics(cell)), "Steps", "page", index)
        yield Section("Before the timed steps", list(_before(report, cell)), "Steps", "page", index)


def _each(report: ProfileReport, title: str, view: str, draw: Draw) -> Iterator[Section]:
    """A section for each configuration of which there is something; beyond the first ones on a page only."""
    shown = [(index, blocks) for index, cell in enumerate(report.cells) if (blocks := list(draw(cell)))]
    for place, (index, blocks) in enumerate(shown):
        yield Section(title, blocks, view, "first" if place < MOST_DETAILED else "page", index)
    left = len(shown) - MOST_DETAILED
    if left > 0:
        yield Section(f"{title}: {plural(left, 'more configuration')}", [Paragraph("CSV and HTML have them all.")], "")


READINGS: Fields[None, tuple[tuple[str, str], list[float | str]]] = (
    (Column("probe"), lambda _, row: f"{one_line(row[0][0], 40)}: {spoken(row[0][1])}"),
    (Column("read"), lambda _, row: _range(row[0][1], row[1])),
)


def _readings(cell: ProfileCell) -> Iterator[Block]:
    """What other probes read; of several processes the range."""
    readings: dict[tuple[str, str], list[float | str]] = {}
    caveats: dict[str, list[str]] = {}
    for one in cell.readings:
        caveats.setdefault(one.probe, []).extend(one.caveats)
        for name, value in one.values.items():
            if name not in OWN:
                readings.setdefault((one.probe, name), []).append(value)
    yield from table(READINGS, None, readings.items())
    for probe, texts in caveats.items():
        yield from (Paragraph(f"{one_line(probe, 40)}: {one_line(text)}") for text in dict.fromkeys(texts))


def spoken(name: str) -> str:
    """``gpu per sample`` for ``gpu_mj_per_sample``."""
    return one_line(split_unit(name)[0].replace("_", " "), 60) or one_line(name, 60)


def _range(name: str, values: list[float | str]) -> str:
    numbers = [value for value in values if not isinstance(value, str)]
    if len(numbers) == len(values):
        return between(lambda value: reading(name, value), *numbers)
    return ", ".join(dict.fromkeys(one_line(str(value), 60) for value in values))


FALLBACKS: Fields[ProfileCell, FallbackCost] = (
    (Column("operator", "name"), lambda _, fallback: fallback.operator),
    (Column("verdict", "verdict", rank=1), lambda _, fallback: fallback.verdict),
    (Column("calls", "number", rank=3), lambda _, fallback: fallback.calls),
    (Column("time", "time"), lambda _, fallback: fallback.duration_ns),
    (
        Column("of step", "part", about="of the median step", rank=4),
        lambda cell, fallback: fraction(fallback.duration_ns, cell.step.median_ns) if cell.step is not None else None,
    ),
    (Column("copied", "bytes", about="to the CPU and back"), lambda _, fallback: fallback.bytes),
    (Column("known by", rank=5), lambda _, fallback: fallback.method),
    (Column("native since", about=NATIVE, rank=2), lambda _, fallback: fallback.native_since or "no release yet"),
)


def _fallbacks(cell: ProfileCell) -> Iterator[Block]:
    ordered = sorted(
        cell.fallbacks, key=lambda fallback: (-(fallback.duration_ns or 0), -(fallback.bytes or 0), fallback.operator)
    )
    observed = [fallback for fallback in ordered if fallback.method == "observed"]
    spent, moved = (sum(getattr(fallback, field) or 0 for fallback in observed) for field in ("duration_ns", "bytes"))
    cost = [*([duration(spent)] if spent else []), *([f"{byte_size(moved)} of copies"] if moved else [])]
    parts = [f"{plural(len(observed), 'operator')} observed{f', {listed(cost)}' if cost else ''}"] if observed else []
    left = len(ordered) - len(observed)
    parts += [f"{plural(left, 'operator')} predicted, of which the time is not known"] if left else []
    if parts:
        yield Paragraph(f"{'; '.join(parts)}.")
    yield from table(FALLBACKS, cell, ordered, most=MOST_FALLBACKS)


AGAINST: Fields[None, ClassAgainst] = (
    (Column("class", "name"), lambda _, against: against.kind),
    (Column("measured", "time"), lambda _, against: round(against.measured_ms * 1e6)),
    (Column("predicted", "time", about="the likely time"), lambda _, against: round(against.predicted_ms * 1e6)),
    (
        Column("ratio", about="measured, divided by predicted"),
        lambda _, against: times(against.measured_ms, against.predicted_ms),
    ),
    (Column("operators", rank=1), lambda _, against: ", ".join(shortened(against.operators, MOST_NAMED))),
)


def times(measured_ms: float, predicted_ms: float) -> str:
    return f"{amount(measured_ms / predicted_ms)} x" if predicted_ms > 0 else ""


def _against_chip(cell: ProfileCell) -> Iterator[Block]:
    if cell.chip is None:
        return
    predicted = cell.chip.step_ms
    if len(predicted) == len(("low", "likely", "high")):
        low, high = (duration(predicted[at] * 1e6) for at in (0, 2))
        yield Paragraph(f"{low} to {high} a step were predicted for {one_line(cell.chip.chip, 60)}.")
    yield from table(AGAINST, None, cell.chip.by_class)


OPERATORS: Fields[ProfileCell, tuple[OperatorTime, float | None]] = (
    (Column("operator", "name"), lambda _, row: row[0].operator),
    (Column("calls", "number", rank=2), lambda cell, row: each_step(cell, row[0].calls)),
    (
        Column("host", "time", about="on the host, without the operators that it calls", rank=1),
        lambda cell, row: each_step(cell, row[0].self_host_ns),
    ),
    (Column("device", "time", about="its own kernels"), lambda cell, row: each_step(cell, row[0].self_device_ns)),
    (
        Column("share", "part", about="of all of them, on the device where that was read, else on the host"),
        lambda _, row: row[1],
    ),
    (Column("where", "names", rank=3), lambda _, row: tuple(fold_names(row[0].modules))),
    (Column("host, with what it calls", "time", where="more"), lambda cell, row: each_step(cell, row[0].host_ns)),
    (Column("device, with what it calls", "time", where="more"), lambda cell, row: each_step(cell, row[0].device_ns)),
    (Column("shapes", "names", where="more"), lambda _, row: tuple(row[0].shapes)),
)


def _operators(cell: ProfileCell) -> Iterator[Block]:
    on_device = any(operator.self_device_ns for operator in cell.operators)

    def own(timed: OperatorTime) -> int:
        return min((timed.self_device_ns or 0) if on_device else timed.self_host_ns, BEYOND)

    total = sum(own(operator) for operator in cell.operators)
    ordered = sorted(cell.operators, key=lambda operator: (-own(operator), -operator.self_host_ns, operator.operator))
    if ordered:
        yield Paragraph(f"Timed by {listed(sorted({one_line(operator.source, 40) for operator in ordered}))}.")
    rows = [(operator, fraction(own(operator), total)) for operator in ordered]
    yield from table(OPERATORS, cell, rows, filtered=True, most=MOST_OPERATORS)


MODULES: Fields[ProfileCell, ModuleTime] = (
    (Column("module", "name"), lambda _, module: module.module or ROOT),
    (
        Column("phase", rank=1),
        lambda cell, module: module.phase if len({one.phase for one in cell.modules}) > 1 else None,
    ),
    (Column("type", rank=4), lambda _, module: module.type),
    (Column("calls", "number", rank=3), lambda cell, module: each_step(cell, module.calls)),
    (Column("self host", "time", rank=1), lambda cell, module: each_step(cell, module.self_host_ns)),
    (Column("self device", "time"), lambda cell, module: each_step(cell, module.self_device_ns)),
    (Column("with inner ones", "time", rank=2), lambda cell, module: each_step(cell, module.host_ns)),
)


def _modules(cell: ProfileCell) -> list[Block]:
    ordered = sorted(cell.modules, key=lambda module: (-(module.self_device_ns or module.self_host_ns), module.module))
    return table(MODULES, cell, ordered, most=MOST_MODULES)


KERNELS: Fields[int, Total] = (
    (Column("kernel", "name"), lambda _, total: total.name),
    (Column("calls", "number"), lambda _, total: total.calls),
    (Column("share", "part"), lambda total, one: fraction(one.total_ns, total)),
    (Column("total", "time"), lambda _, total: total.total_ns),
    (Column("mean", "time"), lambda _, total: min(total.total_ns, BEYOND) / total.calls),
    (Column("shortest", "time", rank=3), lambda _, total: total.minimum_ns),
    (Column("longest", "time", rank=3), lambda _, total: total.maximum_ns),
)
COPIES: Fields[None, Total] = (
    (Column("copy", "name"), lambda _, total: total.name),
    (Column("calls", "number"), lambda _, total: total.calls),
    (Column("total", "time"), lambda _, total: total.total_ns),
    (Column("bytes", "bytes"), lambda _, total: total.bytes),
)


STATISTICS: Fields[None, tuple[str, DurationStatistics]] = (
    (Column("what"), lambda _, row: row[0]),
    (Column("median", "time"), lambda _, row: row[1].median_ns),
    (Column("95% from", "time"), lambda _, row: row[1].low_ns),
    (Column("to", "time"), lambda _, row: row[1].high_ns),
    (Column("spread", "share", about=SPREAD), lambda _, row: row[1].spread),
    (Column("mean", "time", rank=3), lambda _, row: row[1].mean_ns),
    (Column("shortest", "time", rank=3), lambda _, row: row[1].minimum_ns),
    (Column("longest", "time", rank=3), lambda _, row: row[1].maximum_ns),
    (Column("steps", "number", rank=4), lambda _, row: row[1].count),
    (Column("outliers", "number", about="kept in all figures", rank=4), lambda _, row: row[1].outliers),
)


def _statistics(cell: ProfileCell) -> Iterator[Block]:
    steps = [("step", cell.step)] if cell.step is not None else []
    yield from table(STATISTICS, None, [*steps, *cell.phases.items()])
    if cell.phases:
        yield Paragraph("Phases come from steps of their own, synchronised between them.")


def _before(report: ProfileReport, cell: ProfileCell) -> Iterator[Block]:
    """First calls and warm-up on one scale, with the median step below them."""
    warm = cell.warmup.durations_ns if cell.warmup is not None else []
    first = cell.first_call_ns
    spent: list[Spent] = [
        (f"first call, process {i}" if len(first) > 1 else "first call", one, 3) for i, one in enumerate(first)
    ]
    spent += [(f"warm-up step {number}", step, 2) for number, step in enumerate(warm, start=1)]
    if not spent:
        return
    thinned = spent[:: -(-len(spent) // MOST_BARS)]
    shown = [*thinned, *([("median step", cell.step.median_ns, 1)] if cell.step is not None else [])]
    largest = max(duration_ns for _, duration_ns, _ in shown)
    parts = []
    if cell.warmup is not None:
        rule = "as asked" if report.plan.warmup is not None else one_line(cell.warmup.rule)
        settled = "the steps were stable" if cell.warmup.stable else "the steps had not settled"
        parts = [f"{plural(len(warm), 'warm-up step')} ({rule}): {settled}"]
    parts += [f"{MOST_BARS} of them are shown"] if len(spent) > MOST_BARS else []
    bars = [
        Bar(what, [Part(fraction(spent_ns, largest) or 0.0, color)], duration(spent_ns))
        for what, spent_ns, color in shown
    ]
    yield Bars(bars, "; ".join(parts))


def each_step(cell: ProfileCell, total: int | None) -> float | int | None:
    """The part of one step, of what is counted over the profiled ones; a whole number where it is one."""
    steps = max(cell.profiled_steps, 1)
    if total is None or not total % steps:
        return None if total is None else total // steps
    return min(total, BEYOND) / steps
