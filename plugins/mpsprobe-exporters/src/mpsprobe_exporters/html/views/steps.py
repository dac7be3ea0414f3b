"""Steps: each timed one as a dot, how they spread, and what came before them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters.html import figures, scales, tables
from mpsprobe_exporters.html.figures import Line, Part, Tip
from mpsprobe_exporters.html.markup import Markup, element, joined, text
from mpsprobe_exporters.html.scales import Axis, bounded
from mpsprobe_exporters.html.tables import Column
from mpsprobe_exporters.plain_text import one_line, plural
from mpsprobe_exporters.units import amount, duration, number, percent

if TYPE_CHECKING:
    from mpsprobe.schemas import DurationStatistics, ProfileCell, ProfileReport, StepSample

MOST_DOTS = 2000
MOST_TIPS = 600
MOST_BARS = 24
LABELS = 0.05  # of the width
FEWEST_IN_HISTOGRAM = 5

COLUMNS = (
    Column("What"),
    Column("Median", True),
    Column("95 % interval from", True, "of the median, by bootstrap"),
    Column("to", True),
    Column("Spread", True, "scaled median absolute deviation as a share of the median"),
    Column("Mean", True),
    Column("Shortest", True),
    Column("Longest", True),
    Column("Steps", True),
    Column("Outliers", True, "kept in all figures"),
)


def steps(report: ProfileReport, cell: ProfileCell) -> Markup | None:
    """The steps of a cell: dots over their index, a histogram, statistics, and the calls before."""
    before = _before(cell, asked=report.plan.warmup is not None)
    if cell.step is None and not cell.steps and before is None:
        return None
    blocks = [_dots(cell), _histogram(cell), _statistics(cell), before]
    return joined(block for block in blocks if block)


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
    level = None if step is None else (y.place(step.median_ns), "")
    band = None if step is None else (y.place(step.low_ns), y.place(step.high_ns))
    title = f"{plural(len(cell.steps), 'timed step')}, in order" + (
        f", {plural(len(changes) + 1, 'process', 'processes')} side by side" if changes else ""
    )
    title += f"; the line is the median, {duration(step.median_ns)}, the band its interval" if step is not None else ""
    title += f" (the first {number(MOST_DOTS)})" if len(cell.steps) > MOST_DOTS else ""
    drawn = figures.plot(
        title, x, y, lines, tips=tips, band=band, level=level, divided=[x.place(index - 0.5) for index in changes]
    )
    entries = [(1, "step")] + ([(3, "outlier")] if any(one.outlier for one in samples) else [])
    return joined([drawn, figures.legend(entries)]) if len(entries) > 1 else drawn


def _index_axis(count: int) -> Axis:
    """Steps counted from 0; on the left there is room for the labels of the other axis."""
    ticks = scales.axis([float(count - 1)], "", whole=True).ticks
    named = [(at, said if at else f"step {said}") for at, said in ticks if at < count]
    return Axis(-0.5 - LABELS * count, count - 0.5, named)


def _tip(index: int, one: StepSample) -> str:
    where = f", process {number(one.process)}" if one.process else ""
    return f"step {number(index)}{where}: {duration(bounded(one.duration_ns))}" + (", outlier" if one.outlier else "")


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


def _statistics(cell: ProfileCell) -> Markup | None:
    rows = [_row("step", cell.step)] if cell.step is not None else []
    rows += [_row(one_line(name, 40), found) for name, found in cell.phases.items()]
    if not rows:
        return None
    caption = "Statistics; phases come from steps of their own, synchronised between them"
    return tables.table(caption if cell.phases else "Statistics", COLUMNS, rows)


def _row(what: str, found: DurationStatistics) -> tuple[tables.Field, ...]:
    spread = bounded(found.spread)
    return (
        tables.words(what),
        tables.time(found.median_ns),
        tables.time(found.low_ns),
        tables.time(found.high_ns),
        tables.Field(percent(spread), spread),
        tables.time(found.mean_ns),
        tables.time(found.minimum_ns),
        tables.time(found.maximum_ns),
        tables.count(found.count),
        tables.count(found.outliers),
    )


def _before(cell: ProfileCell, *, asked: bool) -> Markup | None:
    """First calls and warm-up on one scale, beside the median step."""
    warm = cell.warmup.durations_ns if cell.warmup is not None else []
    rows: list[tuple[str, float, int]] = []
    several = len(cell.first_call_ns) > 1
    for index, spent in enumerate(cell.first_call_ns[:MOST_BARS]):
        rows.append((f"first call, process {number(index)}" if several else "first call", bounded(spent), 3))
    rows += [(f"warm-up {number(index)}", bounded(warm[index]), 2) for index in scales.thinned(len(warm), MOST_BARS)]
    if not rows:
        return None
    if cell.step is not None:
        rows.append(("median step", bounded(cell.step.median_ns), 1))
    largest = max(spent for _, spent, _ in rows) or 1.0
    made = [
        (text(what), figures.stacked([Part(spent / largest, color, "")]), duration(spent))
        for what, spent, color in rows
    ]
    return joined([element("h3", "Before the timed steps"), figures.bar_rows(made, "; ".join(_said(cell, asked)))])


def _said(cell: ProfileCell, asked: bool) -> Iterator[str]:
    step = cell.step
    if cell.first_call_ns and step is not None and step.median_ns > 0:
        times = amount(bounded(max(cell.first_call_ns)) / step.median_ns)
        yield f"The first call, with its compilations, takes {times} times as long as a step"
    if cell.warmup is not None:
        settled = "the steps were stable" if cell.warmup.stable else "the steps had not settled"
        rule = "as asked" if asked else one_line(cell.warmup.rule)
        warm = plural(len(cell.warmup.durations_ns), "warm-up step")
        yield f"{warm} ({rule}): {settled}"
        if len(cell.warmup.durations_ns) > MOST_BARS:
            yield f"{MOST_BARS} of them are shown"
