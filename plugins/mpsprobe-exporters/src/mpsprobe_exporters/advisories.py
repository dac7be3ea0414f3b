"""What a report says about known wrong results, in sentences, for every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters import backends, sources
from mpsprobe_exporters.document import Column, Place, Row, Table, runs, span
from mpsprobe_exporters.module_names import fold_names
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpsprobe import schemas
    from mpsprobe_exporters.supported import AnyReport

COLUMNS = (
    Column("advisory", "name"),
    Column("title"),
    Column("do", "advice"),
    Column("where", "places"),
    *(Column(title) for title in ("calls", "when", "what", "here on", "torch", "macOS", "hardware")),
    Column("sources", "places"),
)


def table(report: AnyReport) -> Table:
    """An entry for each; the places are those of this workload, the rest is about the operator."""
    software = backends.software(backends.target(report))
    columns = tuple(Column(software) if one.title == "torch" else one for one in COLUMNS)
    rows = []
    for one in report.advisories:
        here = None
        if report.kind == "coverage-matrix":
            here = ranges(report, [one.id in cell.advisories for cell in report.releases])
        rows.append(_row(one, report.environment, here))
    return Table(columns, rows, entries=True)


def _row(one: schemas.AdvisoryMatch, environment: schemas.Environment, here: str | None) -> Row:
    phases = ", ".join(f"{one_line(phase)} {number(count)}" for phase, count in one.phases.items())
    return (
        one.id,
        one.title,
        one.workaround,
        (*map(Place, fold_names(one.modules)), *sources.lines(one.call_sites, environment)),
        f"{number(one.calls)} of {', '.join(map(one_line, one.operators))} ({phases})",
        one.condition,
        one.symptom,
        here,
        releases(one.torch),
        systems(one.macos),
        one.hardware,
        tuple(map(sources.reference, one.sources)),
    )


def ranges(report: schemas.MatrixReport, having: Sequence[bool]) -> str:
    """The releases of which ``having`` says so, as ranges: ``2.8.0-2.9.1, 2.11.0``."""
    names = [cell.target.version for cell in report.releases]
    spans = (span(names, run[::-1]) for run in runs(range(len(names)), having.__getitem__) if having[run[0]])
    return ", ".join(spans) or "-"


def releases(one: schemas.AffectedRange) -> str:
    """``from 2.8.0, fixed in 2.11.0``; what is not established is said to be."""
    if one.every:
        return "every version"
    if one.since is not None:
        start = f"from {one.since}"
    elif one.seen:
        start = f"seen on {' and '.join(one.seen)} (earlier ones: not established)"
    else:
        return f"before {one.fixed}" if one.fixed is not None else "not established"
    if one.fixed is not None:
        return f"{start}, fixed in {one.fixed}"
    return f"{start}, no fix known" if one.open else f"{start}, fixed later (where: not established)"


def systems(one: schemas.AffectedSystems) -> str:
    """``15.0 and newer``; what is not established is said to be."""
    before = f"before {one.fixed}" if one.fixed is not None else ""
    if one.since is not None:
        return f"from {one.since} to {before}" if before else f"{one.since} and newer"
    if one.every or not one.seen:
        return "every version" if one.every else before or "not established"
    return ", ".join([f"seen on {' and '.join(one.seen)}", *([before] if before else [])])
