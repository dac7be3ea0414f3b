"""The charts that compare the configurations of a profile: speed-up over the baseline, and how steps divide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mpsprobe_exporters.document import Bar, Bars, Block, Part
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.reports import configurations, profile_advice
from mpsprobe_exporters.trace_summary import Division
from mpsprobe_exporters.units import BEYOND, amount, duration, percent

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileCell, ProfileReport

KNOWN_PHASES = {"forward": 1, "backward": 2, "optimizer": 3}
DIVISIONS = (
    (1, "kernels", "a kernel runs on the device"),
    (3, "copies", "no kernel, but a copy between memories"),
    (4, "fallbacks", "the device waits while an operator runs on the CPU"),
    (2, "operators on the host", "none of these, while the host is inside an operator"),
    (8, "rest", "Python, and waiting"),
)


def title(report: ProfileReport) -> str:
    return f"Times as fast as {one_line(report.plan.baseline or '', 20)}"


def speed_ups(report: ProfileReport) -> Bars | None:
    """A bar for each configuration that the baseline ran too, training first as in PyTorch's announcement of MPS."""
    compared = ((cell, configurations.speed_up(report, cell)) for cell in report.cells)
    found = [(cell, one) for cell, one in compared if one is not None and cell.device != report.plan.baseline]
    if not found:
        return None
    found.sort(key=lambda one: one[0].phase != "training")
    largest = max(1.0, *(one[0] for _, one in found))
    several = len({cell.phase for cell, _ in found}) > 1
    names = configurations.labels(report, [cell for cell, _ in found])
    rows = [
        Bar(
            label,
            [Part(one[0] / largest, 2 if several and cell.phase == "training" else 1)],
            f"{amount(one[0])} x ({amount(one[1])} to {amount(one[2])})",
        )
        for label, (cell, one) in zip(names, found, strict=True)
    ]
    legend = [(1, "inference"), (2, "training")] if several else []
    return Bars(rows, "In brackets, what both 95 % intervals allow. The line is the baseline", legend, 1 / largest)


def phases(report: ProfileReport) -> Iterator[Block]:
    """Each configuration's step as a bar of its phases, all on one scale."""
    found = with_phases(report)
    if not found:
        return
    largest = max(total for _, total in found)
    keys = list(dict.fromkeys(key for cell, _ in found for key in cell.phases))
    colors = {key: KNOWN_PHASES.get(key, 4 + index % 5) for index, key in enumerate(keys)}
    rows = [
        Bar(
            configurations.name(report, cell),
            [
                Part(one.median_ns / largest, colors[key], f"{one_line(key, 40)}: {share(one.median_ns, total)}")
                for key, one in cell.phases.items()
            ],
            duration(total),
        )
        for cell, total in found
    ]
    legend = [(color, one_line(key, 40)) for key, color in colors.items()]
    yield Bars(rows, "Medians of the phases; synchronising between them makes a step take longer", legend)


def divisions(report: ProfileReport, known: Sequence[Division | None]) -> Iterator[Block]:
    """How the profiled steps divide between the device and the host, as the traces show."""
    found = [(cell, one) for cell, one in zip(report.cells, known, strict=True) if one is not None]
    if not found:
        return
    rows = []
    used = set()
    for cell, one in found:
        spent = (one.kernel_ns, one.copy_ns, one.fallback_ns, one.operator_ns, one.other_ns)
        used |= {index for index, part in enumerate(spent) if part}
        parts = [
            Part(part / one.total_ns, color, f"{title}: {share(part, one.total_ns)}")
            for part, (color, title, _) in zip(spent, DIVISIONS, strict=True)
        ]
        inside = percent(one.operator_ns / one.total_ns)
        said = f"{percent(one.busy)} device" if one.kernels else f"{inside} operators"
        rows.append(Bar(configurations.name(report, cell), parts, said))
    slow = any(profile_advice.is_slow_mode(cell) for cell, _ in found)
    caption = "The profiled steps by what goes on in them"
    caption += "; operators were timed one by one, each synchronised, which adds waiting" if slow else ""
    legend = [(color, f"{title}: {about}") for index, (color, title, about) in enumerate(DIVISIONS) if index in used]
    yield Bars(rows, caption, legend)


def with_phases(report: ProfileReport) -> list[tuple[ProfileCell, float]]:
    totals = [(cell, sum(min(phase.median_ns, BEYOND) for phase in cell.phases.values())) for cell in report.cells]
    return [(cell, total) for cell, total in totals if total > 0]


def share(spent: float, total: float) -> str:
    """``14.5 ms (30%)``."""
    return f"{duration(spent)} ({percent(spent / total)})"
