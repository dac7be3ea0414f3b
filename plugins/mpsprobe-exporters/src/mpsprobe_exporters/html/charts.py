"""The charts that compare configurations: speed-up over the baseline, and how steps divide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mpsprobe_exporters.html import figures
from mpsprobe_exporters.html.figures import Part
from mpsprobe_exporters.html.markup import Markup, text
from mpsprobe_exporters.html.scales import TIMES, bounded
from mpsprobe_exporters.plain_text import one_line, plural
from mpsprobe_exporters.profile_advice import is_slow_mode
from mpsprobe_exporters.profile_answer import configuration
from mpsprobe_exporters.speed_ups import ratios
from mpsprobe_exporters.trace_summary import Division
from mpsprobe_exporters.units import amount, duration, percent

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileCell, ProfileReport

MOST_BARS = 40
MOST_NAMED = 12
KNOWN_PHASES = {"forward": 1, "backward": 2, "optimizer": 3}
PARTS = (
    (1, "kernels", "a kernel runs on the device"),
    (3, "copies", "no kernel, but a copy between memories"),
    (4, "fallbacks", "the device waits while an operator runs on the CPU"),
    (2, "operators on the host", "none of these, while the host is inside an operator"),
    (8, "rest", "Python, and waiting"),
)


def speed_ups(report: ProfileReport) -> Iterator[Markup]:
    """Bars of how many times as fast each configuration is as the baseline, which has a line at 1."""
    found = [(cell, one) for cell in report.cells if (one := ratios(report, cell)) is not None]
    if not found:
        return
    largest = max(1.0, *(one[0] for _, one in found))
    several = len({cell.phase for cell, _ in found}) > 1

    def color(cell: ProfileCell) -> int:
        return 2 if several and cell.phase == "training" else 1

    rows = [
        (
            text(configuration_name(report, cell)),
            figures.stacked([Part(one[0] / largest, color(cell), "")], mark=1 / largest),
            f"{amount(one[0])} {TIMES} ({amount(one[1])} to {amount(one[2])})",
        )
        for cell, one in found[:MOST_BARS]
    ]
    base = one_line(report.plan.baseline or "", 20)
    said = f"How many times as fast as {base}; in brackets, what both 95 % intervals allow. The line is {base} itself"
    yield figures.bar_rows(rows, said + _left_out(len(found)))
    if several:
        yield figures.legend([(1, "inference"), (2, "training")])


def phases(report: ProfileReport) -> Iterator[Markup]:
    """Each configuration's step as a bar of its phases, all on one scale."""
    totals = [bounded(sum(bounded(one.median_ns) for one in cell.phases.values())) for cell in report.cells]
    found = [(cell, total) for cell, total in zip(report.cells, totals, strict=True) if total > 0]
    if not found:
        return
    largest = max(totals)
    colors = _colors([cell for cell, _ in found])
    rows = []
    for cell, total in found[:MOST_BARS]:
        parts = [
            Part(bounded(one.median_ns) / largest, colors[key], _part(key, one.median_ns, total))
            for key, one in cell.phases.items()
        ]
        rows.append((text(configuration_name(report, cell)), figures.stacked(parts), _shares(cell, total)))
    yield figures.bar_rows(
        rows, "Medians of the phases, from steps that are synchronised between them" + _left_out(len(found))
    )
    yield figures.legend((color, one_line(key, 40)) for key, color in list(colors.items())[:MOST_NAMED])


def divisions(report: ProfileReport, known: Sequence[Division | None]) -> Iterator[Markup]:
    """How the profiled steps divide between the device and the host, as the traces tell."""
    found = [(cell, one) for cell, one in zip(report.cells, known, strict=True) if one is not None]
    if not found:
        return
    rows = []
    for cell, division in found[:MOST_BARS]:
        spent = _spent(division)
        parts = [
            Part(one / division.total_ns, color, _part(title, one, division.total_ns))
            for one, (color, title, _) in zip(spent, PARTS, strict=True)
        ]
        busy = (
            f"{percent(division.busy)} device"
            if division.kernels
            else f"{percent(division.operator_ns / division.total_ns)} operators"
        )
        rows.append((text(configuration_name(report, cell)), figures.stacked(parts), busy))
    used = {index for _, division in found for index, one in enumerate(_spent(division)) if one}
    slow = any(is_slow_mode(cell) for cell, _ in found)
    caption = "The profiled steps by what goes on in them" + _left_out(len(found))
    caption += "; operators were timed one by one, each synchronised, which adds waiting" if slow else ""
    yield figures.bar_rows(rows, caption)
    yield figures.legend(
        (color, f"{title}: {about}") for index, (color, title, about) in enumerate(PARTS) if index in used
    )


def _spent(division: Division) -> tuple[int, ...]:
    return division.kernel_ns, division.copy_ns, division.fallback_ns, division.operator_ns, division.other_ns


def _colors(cells: list[ProfileCell]) -> dict[str, int]:
    """A colour for each phase; those without a fixed one take what is left, in the order in which they come."""
    found = list(dict.fromkeys(key for cell in cells for key in cell.phases))
    free = range(4, 9)
    return {key: KNOWN_PHASES.get(key) or free[index % len(free)] for index, key in enumerate(found)}


def _part(key: str, spent: float, total: float) -> str:
    return f"{one_line(key, 40)}: {duration(spent)}, {percent(spent / total)}"


def _shares(cell: ProfileCell, total: float) -> str:
    parts = [percent(bounded(one.median_ns) / total) for one in list(cell.phases.values())[:4]]
    return f"{duration(total)} ({' / '.join(parts)})" if len(parts) > 1 else duration(total)


def configuration_name(report: ProfileReport, cell: ProfileCell) -> str:
    """``mps, batch 8, sequence 128``, with the dtype where several were measured."""
    dtypes = {(one.dtype, one.autocast) for one in report.cells}
    kind = [one_line(one, 20) for one in (cell.dtype, cell.autocast) if one] if len(dtypes) > 1 else []
    return ", ".join([configuration(report, cell), *kind])


def _left_out(count: int) -> str:
    return f"; the first {MOST_BARS} of {plural(count, 'configuration')}" if count > MOST_BARS else ""
