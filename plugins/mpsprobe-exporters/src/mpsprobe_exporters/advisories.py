"""What a report says about known wrong results, in sentences, for every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters import backends, sources
from mpsprobe_exporters.document import Column, Place, Table, runs, span
from mpsprobe_exporters.module_names import fold_names
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpsprobe import schemas
    from mpsprobe_exporters.document import Fields
    from mpsprobe_exporters.supported import AnyReport

FIELDS: Fields[AnyReport, schemas.AdvisoryMatch] = (
    (Column("advisory", "name"), lambda _, one: one.id),
    (Column("title"), lambda _, one: one.title),
    (Column("if"), lambda _, one: one.condition if one.undecided else None),
    (Column("only if"), lambda _, one: one.only_if),
    (Column("do", "advice"), lambda _, one: one.workaround),
    (Column("where", "places"), lambda report, one: _places(report, one)),
    (Column("calls"), lambda _, one: _calls(one)),
    (Column("when"), lambda _, one: None if one.undecided else one.condition),
    (Column("what"), lambda _, one: one.symptom),
    (Column("here on"), lambda report, one: _here(report, one)),
    (Column("torch"), lambda _, one: releases(one.torch)),
    (Column("macOS"), lambda _, one: systems(one.macos)),
    (Column("hardware"), lambda _, one: one.hardware),
    (Column("sources", "places"), lambda _, one: tuple(map(sources.reference, one.sources))),
)


def table(report: AnyReport, matches: Sequence[schemas.AdvisoryMatch] | None = None) -> Table:
    """An entry for each, or each of ``matches``; the places are those of this workload."""
    matches = report.advisories if matches is None else matches
    software = backends.software(backends.target(report))
    columns = tuple(Column(software) if column.title == "torch" else column for column, _ in FIELDS)
    return Table(columns, [tuple(of(report, one) for _, of in FIELDS) for one in matches], entries=True)


def _places(report: AnyReport, one: schemas.AdvisoryMatch) -> tuple[Place, ...]:
    return (*map(Place, fold_names(one.modules)), *sources.lines(one.call_sites, report.environment))


def _calls(one: schemas.AdvisoryMatch) -> str:
    phases = ", ".join(f"{one_line(phase)} {number(count)}" for phase, count in one.phases.items())
    return f"{number(one.calls)} of {', '.join(map(one_line, one.operators))} ({phases})"


def _here(report: AnyReport, one: schemas.AdvisoryMatch) -> str | None:
    if report.kind == "coverage":
        return None
    return ranges(report, [one.id in cell.advisories for cell in report.releases])


def ranges(report: schemas.MatrixReport, having: Sequence[bool]) -> str:
    """The releases of which ``having`` says so, as ranges: ``2.8.0-2.9.1, 2.11.0``."""
    names = [cell.target.version for cell in report.releases]
    spans = (span(names, run[::-1]) for run in runs(range(len(names)), having.__getitem__) if having[run[0]])
    return ", ".join(spans) or "-"


def releases(one: schemas.AffectedRange, *, brief: bool = False) -> str:
    """``from 2.8.0, fixed in 2.11.0``; what is not established is said to be, unless ``brief``."""
    if one.every:
        return "every version"
    if one.since is not None:
        start = f"from {one.since}"
    elif one.seen:
        start = f"seen on {' and '.join(one.seen)}{'' if brief else ' (earlier ones: not established)'}"
    else:
        return f"before {one.fixed}" if one.fixed is not None else "not established"
    if one.fixed is not None:
        return f"{start}, fixed in {one.fixed}"
    fixed = "fixed later" if brief else "fixed later (where: not established)"
    return f"{start}, {'no fix known' if one.open else fixed}"


def systems(one: schemas.AffectedSystems) -> str:
    """``15.0 and newer``; what is not established is said to be."""
    before = f"before {one.fixed}" if one.fixed is not None else ""
    if one.since is not None:
        return f"from {one.since} to {before}" if before else f"{one.since} and newer"
    if one.every or not one.seen:
        return "every version" if one.every else before or "not established"
    return ", ".join([f"seen on {' and '.join(one.seen)}", *([before] if before else [])])
