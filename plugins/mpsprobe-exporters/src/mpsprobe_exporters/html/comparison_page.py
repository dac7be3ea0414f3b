"""Two reports held against each other as a page: what differs beyond noise, by how much, and how that is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import comparison_answer as words
from mpsprobe_exporters.html import figures, scales, tables
from mpsprobe_exporters.html.markup import Markup, block, element, joined, name, plain_list, text
from mpsprobe_exporters.html.page import View, page
from mpsprobe_exporters.html.scales import bounded
from mpsprobe_exporters.html.tables import Column, Field
from mpsprobe_exporters.plain_text import one_line, plural, shortened
from mpsprobe_exporters.units import duration, measured, number, ratio

if TYPE_CHECKING:
    from mpsprobe.schemas import ComparedCell, ComparedOperator, ComparedQuantity, ComparisonReport

COLORS = {"slower": 4, "larger": 4, "faster": 1, "smaller": 1}
BAD = frozenset({"slower", "larger", "worse"})
MOST_BARS = 60
QUANTITIES = (
    Column("Configuration"),
    Column("Quantity"),
    Column("Old", True),
    Column("New", True),
    Column("Ratio", True, "new divided by old"),
    Column("95 % interval", about="of the ratio"),
    Column("p", True, "corrected for the number of tests"),
    Column("Difference"),
    Column("Samples", about="old and new, and what the test took for independent"),
    Column("Note"),
)
OPERATORS = (
    Column("Configuration"),
    Column("Operator"),
    Column("Calls old", True, "in one profiled step"),
    Column("Calls new", True),
    Column("Old", True, "self time in one profiled step"),
    Column("New", True),
    Column("Change", True),
    Column("Clock"),
    Column("Presence"),
)
VERDICTS = (Column("Operator"), Column("Release"), Column("Old"), Column("New"), Column("Change"))


def comparison_page(report: ComparisonReport) -> str:
    """The document."""
    views = [View("overview", "Overview", list(_overview(report)))]
    if any(cell.quantities for cell in report.cells):
        views.append(View("quantities", "Quantities", [_quantities(report)]))
    if any(cell.operators for cell in report.cells):
        views.append(View("operators", "Operators", [_operators(report)]))
    if report.verdicts:
        views.append(View("verdicts", words.VERDICTS, [_verdicts(report)]))
    names = list(dict.fromkeys(one_line(one, 60) for one in [*report.new.workloads, *report.old.workloads]))
    title = f"{', '.join(shortened(names, 2)) or 'reports'}: new against old"
    return page(title, f"{words.short_answer(report)}.", [f"{words.side_line(report)}."], views)


def _overview(report: ComparisonReport) -> Iterator[Markup]:
    if report.conditions:
        items = (element("li", line) for line in words.condition_lines(report))
        yield element("div", element("p", f"{words.conditions_title(report)}:"), element("ul", *items), class_="alert")
    yield from block("Steps", _ratios(report))
    for cell in report.cells:
        notes = [*words.cell_notes(cell), *words.fallback_lines(cell)]
        yield from block(words.configuration(cell), plain_list(notes))
    yield from block("How the runs ended", plain_list(words.failure_lines(report)))
    yield from block(words.ADVISORIES, plain_list(words.advisory_lines(report)))
    yield from block(words.UNPAIRED, plain_list(words.unpaired_lines(report)))
    yield from block("How differences are told from noise", plain_list(words.method_lines(report)))


def _ratios(report: ComparisonReport) -> Iterator[Markup]:
    """The ratio of each configuration's step with its interval, all on one scale around 1."""
    found = [(cell, one) for cell in report.cells for one in cell.quantities if one.quantity == "step" and one.ratio]
    if not found:
        return
    ends = [bounded(end) for _, one in found for end in (one.ratio, one.low, one.high) if end is not None]
    x = scales.axis([1.0, *ends], "", zero=False)
    margin = (x.high - x.low) * 0.04
    x = x._replace(low=x.low - margin, high=x.high + margin)
    rows = [(text(words.configuration(cell)), _drawn(one, x), _said(one)) for cell, one in found[:MOST_BARS]]
    rest = f"; the first {MOST_BARS} of {plural(len(found), 'configuration')}" if len(found) > MOST_BARS else ""
    caption = f"New divided by old with its 95 % interval, from {x.low:.2f} to {x.high:.2f}; the line is 1: no change"
    yield figures.bar_rows(rows, caption + rest)
    yield figures.legend([(4, "slower, beyond noise"), (1, "faster, beyond noise"), (8, "not told from noise")])


def _drawn(one: ComparedQuantity, x: scales.Axis) -> Markup:
    at = bounded(one.ratio or 1.0)
    low, high = (at if end is None else bounded(end) for end in (one.low, one.high))
    return figures.interval(x.place(low), x.place(high), x.place(at), x.place(1.0), COLORS.get(one.difference, 8))


def _said(one: ComparedQuantity) -> str:
    between = words.interval(one)
    return f"{ratio(one.ratio or 1.0)}{f' ({between})' if between else ''}, {one.difference}"


def _quantities(report: ComparisonReport) -> Markup:
    rows = [_quantity(cell, one) for cell in report.cells for one in cell.quantities]
    return tables.table(plural(len(rows), "quantity", "quantities"), QUANTITIES, rows, filtered="Filter quantities")


def _quantity(cell: ComparedCell, one: ComparedQuantity) -> tuple[Field, ...]:
    factor, p = one.ratio, one.adjusted_p_value
    counts = f"{number(one.old_count)} and {number(one.new_count)}" if one.samples else None
    kind = f" {plural(2, one.samples, 'processes' if one.samples == 'process' else 'steps')[2:]}" if one.samples else ""
    return (
        tables.words(words.configuration(cell)),
        tables.words(one_line(one.name, 60)),
        Field(measured(one.old, one.unit), bounded(one.old)),
        Field(measured(one.new, one.unit), bounded(one.new)),
        Field(None if factor is None else ratio(factor), None if factor is None else bounded(factor)),
        tables.words(words.interval(one)),
        Field(None if p is None else words.probability(p), p),
        tables.words(_change(one.difference, bad=one.regression or one.difference in BAD)),
        tables.words(f"{counts}{kind}" if counts else None),
        tables.words(one_line(one.note) if one.note else None),
    )


def _operators(report: ComparisonReport) -> Markup:
    rows = [_operator(cell, one) for cell in report.cells for one in cell.operators]
    caption = "Self time in one profiled step: measured once, so not tested"
    return tables.table(caption, OPERATORS, rows, filtered="Filter operators")


def _operator(cell: ComparedCell, one: ComparedOperator) -> tuple[Field, ...]:
    change = None if one.old_ns is None or one.new_ns is None else bounded(one.new_ns) - bounded(one.old_ns)
    signed = None if change is None else ("+" if change > 0 else "-" if change < 0 else "") + duration(abs(change))
    return (
        tables.words(words.configuration(cell)),
        tables.words(name(one.operator)),
        tables.rate(one.old_calls),
        tables.rate(one.new_calls),
        tables.time(one.old_ns),
        tables.time(one.new_ns),
        Field(signed, change),
        tables.words(one.clock),
        tables.words(None if one.presence == "both" else one.presence),
    )


def _verdicts(report: ComparisonReport) -> Markup:
    rows = [
        (
            tables.words(name(operator)),
            tables.words(release),
            tables.words(old),
            tables.words(new),
            tables.words(_change(change, bad=change in BAD)),
        )
        for operator, release, old, new, change in words.verdict_rows(report)
    ]
    same = element("p", f"{plural(report.same_verdicts, 'operator')} as before.", class_="quiet")
    return joined([tables.table(plural(len(rows), "verdict"), VERDICTS, rows, filtered="Filter operators"), same])


def _change(word: str, *, bad: bool) -> Markup:
    return element("span", word, class_="tag bad" if bad else "tag")
