"""Steps: each timed one as a dot, and how they spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters.html import figures, scales
from mpsprobe_exporters.html.figures import Line, Tip
from mpsprobe_exporters.html.markup import Markup, joined
from mpsprobe_exporters.html.scales import Axis, bounded
from mpsprobe_exporters.plain_text import plural
from mpsprobe_exporters.units import duration, number

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileCell, ProfileReport, StepSample

MOST_DOTS = 2000
MOST_TIPS = 600
MOST_BARS = 24
FEWEST_IN_HISTOGRAM = 5


def steps(report: ProfileReport, cell: ProfileCell) -> Markup | None:
    """The steps of a cell: dots over their index, and a histogram."""
    blocks = [block for block in (_dots(cell), _histogram(cell)) if block]
    return joined(blocks) if blocks else None


def _dots(cell: ProfileCell) -> Markup | None:
    samples = sorted(cell.steps, key=lambda one: one.process)[:MOST_DOTS]
    if not samples:
        return None
    count = len(samples)
    y = scales.axis([one.duration_ns for one in samples], "ns")
    x = _index_axis(count)
    place = [(x.place(index), y.place(bounded(one.duration_ns))) for index, one in enumerate(samples)]
    lines = [
        Line("", 1, [at for at, one in zip(place, samples, strict=True) if not one.outlier], "dots"),
        Line("", 3, [at for at, one in zip(place, samples, strict=True) if one.outlier], "odd"),
    ]
    tips = [Tip(place[index][0], _tip(index, samples[index])) for index in scales.thinned(count, MOST_TIPS)]
    changes = [index for index in range(1, count) if samples[index].process != samples[index - 1].process]
    step = cell.step
    level = None if step is None else (y.place(step.median_ns), "median")
    band = None if step is None else (y.place(step.low_ns), y.place(step.high_ns))
    title = f"{plural(len(cell.steps), 'timed step')}, in order" + (
        f", {plural(len(changes) + 1, 'process', 'processes')} side by side" if changes else ""
    )
    title += f"; the median is {duration(step.median_ns)}, the band its interval" if step is not None else ""
    title += f" (the first {number(MOST_DOTS)})" if len(cell.steps) > MOST_DOTS else ""
    drawn = figures.plot(
        title,
        x,
        y,
        lines,
        tips=tips,
        band=band,
        levels=[level] if level else [],
        divided=[x.place(index - 0.5) for index in changes],
    )
    entries = [(1, "step")] + ([(3, "outlier")] if any(one.outlier for one in samples) else [])
    return joined([drawn, figures.legend(entries)]) if len(entries) > 1 else drawn


def _index_axis(count: int) -> Axis:
    """Steps counted from 1: the first one, and round numbers."""
    ticks = scales.axis([float(count)], "", whole=True).ticks
    named = [(at - 1, said) for at, said in ticks if 1 < at <= count]
    return Axis(-0.5, count - 0.5, [(0.0, "step 1"), *named])


def _tip(index: int, one: StepSample) -> str:
    where = f", process {number(one.process)}" if one.process else ""
    return f"step {number(index + 1)}{where}: {duration(bounded(one.duration_ns))}" + (
        ", outlier" if one.outlier else ""
    )


def _histogram(cell: ProfileCell) -> Markup | None:
    durations = [bounded(one.duration_ns) for one in cell.steps]
    if len(durations) < FEWEST_IN_HISTOGRAM or max(durations) <= min(durations):
        return None
    x = scales.axis(durations, "ns", zero=False)
    # Sturges' rule would give too few for long tails; the square root is the other usual one.
    bins = min(MOST_BARS, max(5, round(len(durations) ** 0.5) * 2))
    counts = [0] * bins
    for one in durations:
        counts[min(bins - 1, int(x.place(one) * bins))] += 1
    y = scales.axis([float(max(counts))], "", 3, whole=True)
    ends = f"{duration(min(durations))} to {duration(max(durations))}"
    return figures.histogram(f"How they spread: {ends}; the height is the number of steps", x, counts, y)
