"""What a profile has beside its table of steps, as titled sections: terminal and Markdown draw the same ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from mpsprobe_exporters import profile_advice
from mpsprobe_exporters.plain_text import one_line, plural
from mpsprobe_exporters.profile_answer import configuration, labels, phase_lines, share
from mpsprobe_exporters.units import BEYOND, byte_size, duration, number, percent, plain, reading, split_unit

if TYPE_CHECKING:
    from mpsprobe.schemas import FallbackCost, MemoryUse, OperatorTime, ProfileCell, ProfileReport

MOST_OPERATORS = 10
MOST_MODULES = 8
MOST_FALLBACKS = 12
MOST_DETAILED = 3  # configurations of which operators and modules are shown
MOST_ROWS = 40
MOST_SENTENCES, MOST_PHASES = 4, 4
SAMPLED = "largest of samples"
SOURCES = {"allocator": "allocator", "sampled": SAMPLED}


@dataclass(frozen=True, slots=True)
class Section:
    """A title, a table, and lines below it.

    Attributes:
        title: of the section.
        titles: of the columns; empty for no table.
        rows: cells as text; the first one is a name, which may be long.
        text: numbers of the columns that hold words, beside the first.
        code: whether the first column holds names from code.
        expendable: titles of columns, those that go first on a narrow screen in front.
        lines: below the table.
    """

    title: str
    titles: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    text: tuple[int, ...] = ()
    code: bool = False
    expendable: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def sections(report: ProfileReport) -> Iterator[Section]:
    """Those that have something to say, in the order of reading."""
    found_in_order = (
        _phases(report),
        _processes(report),
        _memory(report),
        *_readings(report),
        *_fallbacks(report),
        *_details(report),
    )
    for found in found_in_order:
        if found.rows or found.lines:
            yield found


def recommendations(report: ProfileReport) -> list[str]:
    """What to do, a line each."""
    lines = []
    for one in profile_advice.recommendations(report):
        where = f"{one.where}: " if one.where else ""
        also = f" (and {plural(one.more, 'configuration')} more)" if one.more else ""
        lines.append(f"{where}{one.remedy} {one.found}{also}")
    return lines


def _phases(report: ProfileReport) -> Section:
    """How each step divides: in sentences for few configurations, as a table for many."""
    lines = phase_lines(report)
    names = list(dict.fromkeys(name for cell in report.cells for name in cell.phases))
    if len(lines) <= MOST_SENTENCES or len(names) > MOST_PHASES:
        return Section("Phases", lines=tuple(lines[:MOST_ROWS]))
    rows = []
    divided = [(cell, sum(phase.median_ns for phase in cell.phases.values())) for cell in report.cells]
    divided = [(cell, total) for cell, total in divided if total > 0]
    for label, (cell, total) in zip(labels(report, [cell for cell, _ in divided]), divided, strict=True):
        found = (cell.phases.get(name) for name in names)
        rows.append((label, *("" if one is None else share(one, total) for one in found)))
    kept, left = _cut(rows)
    titles = ("phases of a step", *(one_line(name, 20) for name in names))
    return Section("Phases", titles, kept, expendable=tuple(reversed(titles[1:])), lines=left)


def _processes(report: ProfileReport) -> Section:
    """How the processes differ: the largest of their medians against the smallest."""
    rows = []
    several = [cell for cell in report.cells if len({step.process for step in cell.steps}) > 1]
    for label, cell in zip(labels(report, several), several, strict=True):
        steps: dict[int, list[int]] = {}
        for step in cell.steps:
            steps.setdefault(step.process, []).append(min(step.duration_ns, BEYOND))
        medians = sorted(median(spent) for spent in steps.values())
        if medians[0] > 0:
            between = percent(medians[-1] / medians[0] - 1)
            spans = (duration(medians[0]), duration(medians[-1]), between)
            rows.append((label, number(len(medians)), *spans))
    titles = ("medians of processes", "processes", "fastest", "slowest", "apart")
    kept, lines = _cut(rows)
    return Section("Processes", titles, kept, expendable=("processes", "fastest"), lines=lines)


def _memory(report: ProfileReport) -> Section:
    measured = [(cell, cell.memory) for cell in report.cells if cell.memory is not None]
    names = labels(report, [cell for cell, _ in measured])
    rows = [(name, *_peaks(memory), SOURCES[memory.source]) for name, (_, memory) in zip(names, measured, strict=True)]
    titles = ("peak of memory", "allocated", "reserved", "process", "taken by")
    kept, lines = _cut(rows)
    return Section("Memory", titles, kept, text=(4,), expendable=("taken by", "reserved"), lines=lines)


def _peaks(memory: MemoryUse) -> Iterator[str]:
    for peak in (memory.peak_allocated_bytes, memory.peak_reserved_bytes, memory.peak_process_bytes):
        yield "" if peak is None else byte_size(peak)


def _readings(report: ProfileReport) -> Iterator[Section]:
    """What other probes read, configuration by configuration; of several processes the range."""
    read = [cell for cell in report.cells if cell.readings]
    for cell in read[:MOST_DETAILED]:
        where = f" ({configuration(report, cell)})" if len(report.cells) > 1 else ""
        found: dict[tuple[str, str], list[float | str]] = {}
        for one in cell.readings:
            for name, value in one.values.items():
                found.setdefault((one.probe, name), []).append(value)
        rows = tuple((f"{one_line(probe, 40)}: {spoken(name)}", _range(name, v)) for (probe, name), v in found.items())
        caveats = (f"{one_line(one.probe, 40)}: {one_line(text)}" for one in cell.readings for text in one.caveats)
        yield Section(f"Readings{where}", ("probe", "read"), rows, text=(1,), lines=tuple(dict.fromkeys(caveats)))
    left = len(read) - MOST_DETAILED
    if left > 0:
        yield Section("Further readings", lines=(f"{plural(left, 'more configuration')}: csv has them all",))


def spoken(name: str) -> str:
    """``gpu per sample`` for ``gpu_mj_per_sample``."""
    return one_line(split_unit(name)[0].replace("_", " "), 60) or one_line(name, 60)


def _range(name: str, values: list[float | str]) -> str:
    numbers = sorted(value for value in values if not isinstance(value, str))
    if len(numbers) == len(values):
        return " to ".join(dict.fromkeys(reading(name, value) for value in (numbers[0], numbers[-1])))
    return ", ".join(dict.fromkeys(one_line(str(value), 60) for value in values))


def _fallbacks(report: ProfileReport) -> Iterator[Section]:
    """The operators that leave MPS: per step, observed or predicted, and what each costs of it."""
    leaving = [cell for cell in report.cells if cell.fallbacks]
    several = len(leaving) > 1
    for cell in leaving[:MOST_DETAILED]:
        ordered = sorted(cell.fallbacks, key=lambda one: (-(one.duration_ns or 0), -(one.bytes or 0), one.operator))
        rows = tuple(_fallback(cell, one) for one in ordered[:MOST_FALLBACKS])
        left = len(ordered) - len(rows)
        titles = ("operator", "verdict", "calls", "time", "of step", "copied", "known by", "native since")
        yield Section(
            f"Operators that leave MPS, in one step{f' ({configuration(report, cell)})' if several else ''}",
            titles,
            rows,
            text=(1, 6, 7),
            code=True,
            expendable=("known by", "of step", "calls", "native since", "verdict"),
            lines=(f"{plural(left, 'more operator')}: csv has them all",) if left else (),
        )
    if len(leaving) > MOST_DETAILED:
        lines = (f"{plural(len(leaving) - MOST_DETAILED, 'more configuration')}: csv has them all",)
        yield Section("Further operators that leave MPS", lines=lines)


def _fallback(cell: ProfileCell, one: FallbackCost) -> tuple[str, ...]:
    step = cell.step.median_ns if cell.step is not None else 0
    return (
        one_line(one.operator, 160),
        one_line(one.verdict, 20),
        number(one.calls),
        "" if one.duration_ns is None else duration(one.duration_ns),
        "" if one.duration_ns is None or step <= 0 else percent(one.duration_ns / step),
        "" if one.bytes is None else byte_size(one.bytes),
        one.method,
        one_line(one.native_since, 20) if one.native_since else "-",
    )


def _details(report: ProfileReport) -> Iterator[Section]:
    """Operators and modules of the first configurations that have them."""
    detailed = [cell for cell in report.cells if cell.operators or cell.modules]
    for cell in detailed[:MOST_DETAILED]:
        where = f" ({configuration(report, cell)})" if len(report.cells) > 1 else ""
        yield _operators(cell, where)
        yield _modules(cell, where)
    left = len(detailed) - MOST_DETAILED
    if left > 0:
        lines = (f"{plural(left, 'more configuration')} with operators or modules: csv and html have them all",)
        yield Section("Further operators", lines=lines)


def _operators(cell: ProfileCell, where: str) -> Section:
    """By self time, of the device where it is known; for one profiled step."""
    steps = max(cell.profiled_steps, 1)
    on_device = any(one.self_device_ns is not None for one in cell.operators)

    def own(one: OperatorTime) -> int:
        return min((one.self_device_ns or 0) if on_device else one.self_host_ns, BEYOND)

    total = sum(own(one) for one in cell.operators)
    ordered = sorted(cell.operators, key=lambda one: (-own(one), -one.self_host_ns, one.operator))
    rows = tuple(
        (
            one_line(one.operator, 160),
            _calls(one.calls, steps),
            duration(min(one.self_host_ns, BEYOND) / steps),
            "" if one.self_device_ns is None else duration(min(one.self_device_ns, BEYOND) / steps),
            percent(own(one) / total) if total > 0 else "",
            _first(one.modules),
        )
        for one in ordered[:MOST_OPERATORS]
    )
    left = len(ordered) - len(rows)
    sources = ", ".join(sorted({one_line(one.source, 40) for one in cell.operators}))
    lines = (
        [f"{plural(left, 'more operator')}, {percent(sum(map(own, ordered[MOST_OPERATORS:])) / total)}"]
        if left and total
        else []
    )
    lines.append(f"self time, without what an operator calls; timed by {sources}")
    return Section(
        f"Operators, in one step{where}",
        ("operator", "calls", "host", "device", "share", "where"),
        rows,
        text=(5,),
        code=True,
        expendable=("where", "calls", "host"),
        lines=tuple(lines) if rows else (),
    )


def _first(places: list[str]) -> str:
    if not places:
        return ""
    more = f" +{len(places) - 1}" if len(places) > 1 else ""
    return (one_line(places[0], 40) or "(model)") + more


def _modules(cell: ProfileCell, where: str) -> Section:
    steps = max(cell.profiled_steps, 1)
    ordered = sorted(cell.modules, key=lambda one: (-(one.self_device_ns or one.self_host_ns), one.module))
    rows = tuple(
        (
            one_line(one.module, 160) or "(model)",
            one_line(one.type, 40),
            _calls(one.calls, steps),
            duration(min(one.self_host_ns, BEYOND) / steps),
            "" if one.self_device_ns is None else duration(min(one.self_device_ns, BEYOND) / steps),
            duration(min(one.host_ns, BEYOND) / steps),
        )
        for one in ordered[:MOST_MODULES]
    )
    left = len(ordered) - len(rows)
    return Section(
        f"Modules, in one step{where}",
        ("module", "type", "calls", "self host", "self device", "with inner ones"),
        rows,
        text=(1,),
        code=True,
        expendable=("type", "calls", "with inner ones", "self host"),
        lines=(f"{plural(left, 'more module')}",) if left else (),
    )


def _cut(rows: Sequence[tuple[str, ...]]) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """The rows that are shown, and a line about the others."""
    left = len(rows) - MOST_ROWS
    return tuple(rows[:MOST_ROWS]), (f"{plural(left, 'more row')}: csv has them all",) if left > 0 else ()


def _calls(count: int, steps: int) -> str:
    """Calls in one step, which need not be whole."""
    return plain(min(count, BEYOND) / steps)
