"""Fallbacks: operators that leave MPS, with what that costs where it was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters.html import tables
from mpsprobe_exporters.html.markup import Markup, element, joined, name
from mpsprobe_exporters.html.scales import bounded
from mpsprobe_exporters.html.tables import Column
from mpsprobe_exporters.plain_text import listed, one_line, plural
from mpsprobe_exporters.units import byte_size, duration

if TYPE_CHECKING:
    from mpsprobe.schemas import FallbackCost, ProfileCell, ProfileReport

COLUMNS = (
    Column("Operator"),
    Column("How it is known"),
    Column("Verdict"),
    Column("Calls", True, "in one step"),
    Column("Time", True, "in one step, where it was observed"),
    Column("Share", True, "of the median step"),
    Column("Copied", True, "to the CPU and back, in one step"),
    Column("Native since", about="the torch release that has an MPS kernel"),
)


def fallbacks(report: ProfileReport, cell: ProfileCell) -> Markup | None:
    """The fallbacks of a cell, the most expensive first."""
    if not cell.fallbacks:
        return None
    ordered = sorted(cell.fallbacks, key=lambda one: (-(one.duration_ns or 0), -(one.bytes or 0), one.operator))
    step = cell.step.median_ns if cell.step is not None else 0.0
    rows = [_row(one, step) for one in ordered]
    table = tables.table(plural(len(rows), "operator"), COLUMNS, rows)
    return joined([element("p", _sentence(ordered)), table, _source(report, ordered)])


def _row(one: FallbackCost, step: float) -> tuple[tables.Field, ...]:
    return (
        tables.words(name(one.operator)),
        tables.words(element("span", one.method, class_=f"tag {one.method}")),
        tables.words(one_line(one.verdict, 60)),
        tables.count(one.calls),
        tables.time(one.duration_ns),
        tables.share(one.duration_ns, step),
        tables.size(one.bytes),
        tables.words(f"torch {one_line(one.native_since, 40)}" if one.native_since else "no release yet"),
    )


def _sentence(found: list[FallbackCost]) -> str:
    observed = [one for one in found if one.method == "observed"]
    predicted = len(found) - len(observed)
    spent = sum(one.duration_ns or 0 for one in observed)
    moved = sum(one.bytes or 0 for one in observed)
    parts = []
    if observed:
        cost = [duration(bounded(spent))] if spent else []
        cost += [f"{byte_size(moved)} of copies"] if moved else []
        parts.append(f"{len(observed):,} observed" + (f", {listed(cost)} in each step" if cost else ""))
    if predicted:
        parts.append(f"{predicted:,} predicted, of which the time is not known")
    return f"{plural(len(found), 'operator')} of the model leave MPS: {'; '.join(parts)}."


def _source(report: ProfileReport, found: list[FallbackCost]) -> Markup | None:
    table = report.predicted_with
    if table is None or all(one.method == "observed" for one in found):
        return None
    return element("p", "Predicted with the kernel table of ", name(table.wheel or "", 100), ".", class_="quiet")
