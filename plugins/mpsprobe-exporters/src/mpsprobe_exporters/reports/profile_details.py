"""What was measured of each configuration of a profile: memory, readings, operators, kernels, modules, steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters.document import Bar, Bars, Block, Cell, Column, Paragraph, Part, Section, Table
from mpsprobe_exporters.module_names import fold_names
from mpsprobe_exporters.plain_text import listed, one_line, plural
from mpsprobe_exporters.reports import configurations
from mpsprobe_exporters.trace_summary import copies, kernels
from mpsprobe_exporters.units import BEYOND, byte_size, duration, fraction, reading, split_unit

if TYPE_CHECKING:
    from mpsprobe.schemas import DurationStatistics, OperatorTime, ProfileCell, ProfileReport

    Spent = tuple[str, float, int]
    Draw = Callable[[ProfileCell], Iterable[Block]]

MOST_OPERATORS, MOST_MODULES, MOST_FALLBACKS = 10, 8, 12  # on a terminal and in Markdown
MOST_DETAILED = 3  # configurations that are looked into there
MOST_ROWS = 40
MOST_BARS = 24
SOURCES = {"allocator": "counted by the allocator", "sampled": "largest of samples"}
# What a probe says of its own work, not of the model's.
OWN = frozenset({"source", "events", "steps"})
NATIVE = "the torch release that has an MPS kernel"


def sections(report: ProfileReport) -> Iterator[Section]:
    """Those that have something to say, in the order of reading."""
    yield Section("Peak memory", list(_memory(report)), view="Memory")
    yield from _each(report, "Readings", "Probes", _readings)
    yield from _each(report, "Operators that leave MPS, in one step", "Fallbacks", _fallbacks)
    yield from _each(report, "Operators by their own time, in one step", "Operators", _operators)
    yield from _each(report, "Modules, in one step", "", _modules)
    for index, cell in enumerate(report.cells):
        yield Section("", list(_kernels(cell)), "Kernels", "page", index)
        yield Section("", list(_statistics(cell)), "Steps", "page", index)
        yield Section("Before the timed steps", list(_before(report, cell)), "Steps", "page", index)


def _each(report: ProfileReport, title: str, view: str, draw: Draw) -> Iterator[Section]:
    """A section for each configuration of which there is something; beyond the first ones on a page only."""
    found = [(index, blocks) for index, cell in enumerate(report.cells) if (blocks := list(draw(cell)))]
    for place, (index, blocks) in enumerate(found):
        yield Section(title, blocks, view, "first" if place < MOST_DETAILED else "page", index)
    left = len(found) - MOST_DETAILED
    if left > 0:
        yield Section(f"{title}: {plural(left, 'more configuration')}", [Paragraph("CSV and HTML have them all.")], "")


def _memory(report: ProfileReport) -> Iterator[Block]:
    """The peaks of each configuration."""
    found = [(cell, cell.memory) for cell in report.cells if cell.memory is not None]
    names = configurations.labels(report, [cell for cell, _ in found])
    rows = []
    for label, (cell, use) in zip(names, found, strict=True):
        peaks = (use.peak_allocated_bytes, use.peak_reserved_bytes, use.peak_process_bytes)
        info = next((one for one in report.devices if one.type == cell.device), None)
        rows.append((label, *peaks, SOURCES[use.source], info.memory_bytes if info is not None else None))
    columns = (
        Column("configuration"),
        Column("allocated", "bytes", about="what tensors take"),
        Column("reserved", "bytes", about="what the allocator has taken from the system", rank=2),
        Column("process", "bytes", about="the whole process", rank=1),
        Column("how it is known", rank=3),
        Column("the device has", "bytes", rank=4),
    )
    if rows:
        yield Table(columns, rows, most=MOST_ROWS)


def _readings(cell: ProfileCell) -> Iterator[Block]:
    """What other probes read; of several processes the range."""
    found: dict[tuple[str, str], list[float | str]] = {}
    caveats: dict[str, list[str]] = {}
    for one in cell.readings:
        caveats.setdefault(one.probe, []).extend(one.caveats)
        for name, value in one.values.items():
            if name not in OWN:
                found.setdefault((one.probe, name), []).append(value)
    rows = [(f"{one_line(probe, 40)}: {spoken(name)}", _range(name, values)) for (probe, name), values in found.items()]
    if rows:
        yield Table((Column("probe"), Column("read")), rows)
    for probe, texts in caveats.items():
        yield from (Paragraph(f"{one_line(probe, 40)}: {one_line(text)}") for text in dict.fromkeys(texts))


def spoken(name: str) -> str:
    """``gpu per sample`` for ``gpu_mj_per_sample``."""
    return one_line(split_unit(name)[0].replace("_", " "), 60) or one_line(name, 60)


def _range(name: str, values: list[float | str]) -> str:
    numbers = sorted(value for value in values if not isinstance(value, str))
    if len(numbers) == len(values):
        return " to ".join(dict.fromkeys(reading(name, value) for value in (numbers[0], numbers[-1])))
    return ", ".join(dict.fromkeys(one_line(str(value), 60) for value in values))


def _fallbacks(cell: ProfileCell) -> Iterator[Block]:
    """The operators that leave MPS, and what each costs of a step; the most expensive first."""
    step = cell.step.median_ns if cell.step is not None else 0
    ordered = sorted(cell.fallbacks, key=lambda one: (-(one.duration_ns or 0), -(one.bytes or 0), one.operator))
    rows = [
        (
            one.operator,
            one.verdict,
            one.calls,
            one.duration_ns,
            fraction(one.duration_ns, step),
            one.bytes,
            one.method,
            one.native_since or "no release yet",
        )
        for one in ordered
    ]
    columns = (
        Column("operator", "name"),
        Column("verdict", "verdict", rank=1),
        Column("calls", "number", rank=3),
        Column("time", "time"),
        Column("of step", "part", about="of the median step", rank=4),
        Column("copied", "bytes", about="to the CPU and back"),
        Column("known by", rank=5),
        Column("native since", about=NATIVE, rank=2),
    )
    if rows:
        observed = [one for one in ordered if one.method == "observed"]
        spent, moved = (sum(getattr(one, field) or 0 for one in observed) for field in ("duration_ns", "bytes"))
        cost = [*([duration(spent)] if spent else []), *([f"{byte_size(moved)} of copies"] if moved else [])]
        said = (
            [f"{plural(len(observed), 'operator')} observed{f', {listed(cost)}' if cost else ''}"] if observed else []
        )
        left = len(rows) - len(observed)
        said += [f"{plural(left, 'operator')} predicted, of which the time is not known"] if left else []
        yield Paragraph(f"{'; '.join(said)}.")
        yield Table(columns, rows, most=MOST_FALLBACKS)


def _operators(cell: ProfileCell) -> Iterator[Block]:
    """By self time, of the device where it is known."""
    on_device = any(one.self_device_ns for one in cell.operators)

    def own(one: OperatorTime) -> int:
        return min((one.self_device_ns or 0) if on_device else one.self_host_ns, BEYOND)

    total = sum(own(one) for one in cell.operators)
    ordered = sorted(cell.operators, key=lambda one: (-own(one), -one.self_host_ns, one.operator))
    rows: list[tuple[Cell, ...]] = [
        (
            one.operator,
            each_step(cell, one.calls),
            each_step(cell, one.self_host_ns),
            each_step(cell, one.self_device_ns),
            fraction(own(one), total),
            tuple(module or "(model)" for module in fold_names(one.modules)),
            each_step(cell, one.host_ns),
            each_step(cell, one.device_ns),
            tuple(one.shapes),
        )
        for one in ordered
    ]
    columns = (
        Column("operator", "name"),
        Column("calls", "number", rank=2),
        Column("host", "time", about="on the host, without the operators that it calls", rank=1),
        Column("device", "time", about="its own kernels"),
        Column("share", "part", about="of all of them, on the device where that was read, else on the host"),
        Column("where", "names", rank=3),
        Column("host, with what it calls", "time", where="more"),
        Column("device, with what it calls", "time", where="more"),
        Column("shapes", "names", where="more"),
    )
    if rows:
        sources = listed(sorted({one_line(one.source, 40) for one in cell.operators}))
        yield Paragraph(f"Timed by {sources}.")
        yield Table(columns, rows, filtered=True, most=MOST_OPERATORS)


def _modules(cell: ProfileCell) -> Iterator[Block]:
    """The modules that take most; a page has them as a tree."""
    phases = {one.phase for one in cell.modules}
    ordered = sorted(cell.modules, key=lambda one: (-(one.self_device_ns or one.self_host_ns), one.module))
    rows = [
        (
            one.module or "(model)",
            one.phase if len(phases) > 1 else None,
            one.type,
            each_step(cell, one.calls),
            each_step(cell, one.self_host_ns),
            each_step(cell, one.self_device_ns),
            each_step(cell, one.host_ns),
        )
        for one in ordered
    ]
    columns = (
        Column("module", "name"),
        Column("phase", rank=1),
        Column("type", rank=4),
        Column("calls", "number", rank=3),
        Column("self host", "time", rank=1),
        Column("self device", "time"),
        Column("with inner ones", "time", rank=2),
    )
    if rows:
        yield Table(columns, rows, most=MOST_MODULES)


def _kernels(cell: ProfileCell) -> Iterator[Block]:
    """Kernels and copies, from the events of the trace."""
    found, moved = (kernels(cell.trace), copies(cell.trace)) if cell.trace is not None else ([], [])
    total = sum(one.total_ns for one in found)
    if found:
        rows = [
            (name, calls, fraction(spent, total), spent, min(spent, BEYOND) / calls, shortest, longest)
            for name, calls, spent, shortest, longest in found
        ]
        amounts = (Column(title, "time") for title in ("total", "mean", "shortest", "longest"))
        columns = (Column("kernel", "name"), Column("calls", "number"), Column("share", "part"), *amounts)
        caption = f"{plural(len(found), 'kernel')}, {plural(sum(one.calls for one in found), 'run')}"
        yield Table(columns, rows, caption, filtered=True)
    if moved:
        columns = (Column("copy", "name"), Column("calls", "number"), Column("total", "time"), Column("bytes", "bytes"))
        yield Table(columns, list(moved), "Copies between memories, as the trace names them")


def _statistics(cell: ProfileCell) -> Iterator[Block]:
    """The steps and their phases in figures."""
    found = [("step", cell.step)] if cell.step is not None else []
    rows = [_row(what, one) for what, one in (*found, *cell.phases.items())]
    times = (Column(title, "time") for title in ("median", "95 % from", "to"))
    others = (Column(title, "time", rank=3) for title in ("mean", "shortest", "longest"))
    counts = (Column("steps", "number", rank=4), Column("outliers", "number", about="kept in all figures", rank=4))
    spread = Column("spread", "share", about="scaled median absolute deviation as a share of the median")
    if rows:
        yield Table((Column("what"), *times, spread, *others, *counts), rows)
        yield from [Paragraph("Phases come from steps of their own, synchronised between them.")][: len(cell.phases)]


def _row(what: str, one: DurationStatistics) -> tuple[Cell, ...]:
    spent = (one.mean_ns, one.minimum_ns, one.maximum_ns)
    return what, one.median_ns, one.low_ns, one.high_ns, one.spread, *spent, one.count, one.outliers


def _before(report: ProfileReport, cell: ProfileCell) -> Iterator[Block]:
    """First calls and warm-up on one scale, with the median step below them."""
    warm = cell.warmup.durations_ns if cell.warmup is not None else []
    first = cell.first_call_ns
    spent: list[Spent] = [
        (f"first call, process {i}" if len(first) > 1 else "first call", one, 3) for i, one in enumerate(first)
    ]
    spent += [(f"warm-up step {number}", one, 2) for number, one in enumerate(warm, start=1)]
    if not spent:
        return
    shown = [*_thinned(spent), *([("median step", cell.step.median_ns, 1)] if cell.step is not None else [])]
    largest = max(one for _, one, _ in shown)
    said = []
    if cell.warmup is not None:
        rule = "as asked" if report.plan.warmup is not None else one_line(cell.warmup.rule)
        settled = "the steps were stable" if cell.warmup.stable else "the steps had not settled"
        said = [f"{plural(len(warm), 'warm-up step')} ({rule}): {settled}"]
    said += [f"{MOST_BARS} of them are shown"] if len(spent) > MOST_BARS else []
    bars = [Bar(what, [Part(fraction(one, largest) or 0.0, color)], duration(one)) for what, one, color in shown]
    yield Bars(bars, "; ".join(said))


def _thinned(found: list[Spent]) -> list[Spent]:
    places = range(len(found)) if len(found) <= MOST_BARS else range(0, len(found), -(-len(found) // MOST_BARS))
    return [found[place] for place in places]


def each_step(cell: ProfileCell, total: int | None) -> float | int | None:
    """The part of one step, of what is counted over the profiled ones; a whole number where it is one."""
    steps = max(cell.profiled_steps, 1)
    if total is None or not total % steps:
        return None if total is None else total // steps
    return min(total, BEYOND) / steps
