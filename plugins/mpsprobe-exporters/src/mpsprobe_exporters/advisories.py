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
    (Column("advisory", "name"), lambda _, match: match.id),
    (Column("title"), lambda _, match: match.title),
    (Column("if"), lambda _, match: match.condition if match.undecided else None),
    (Column("only if"), lambda _, match: match.only_if),
    (Column("do", "advice"), lambda _, match: match.workaround),
    (Column("where", "places"), lambda report, match: _places(report, match)),
    (Column("calls"), lambda _, match: _calls(match)),
    (Column("when"), lambda _, match: None if match.undecided else match.condition),
    (Column("what"), lambda _, match: match.symptom),
    (Column("here on"), lambda report, match: _here(report, match)),
    (Column("torch"), lambda _, match: releases(match.torch)),
    (Column("macOS"), lambda _, match: systems(match.macos)),
    (Column("hardware"), lambda _, match: match.hardware),
    (Column("sources", "places"), lambda _, match: tuple(map(sources.reference, match.sources))),
)


def table(report: AnyReport, matches: Sequence[schemas.AdvisoryMatch] | None = None) -> Table:
    """An entry for each, or each of ``matches``; the places are those of this workload."""
    matches = report.advisories if matches is None else matches
    software = backends.software(backends.target(report))
    columns = tuple(Column(software) if column.title == "torch" else column for column, _ in FIELDS)
    return Table(columns, [tuple(of(report, match) for _, of in FIELDS) for match in matches], entries=True)


def _places(report: AnyReport, match: schemas.AdvisoryMatch) -> tuple[Place, ...]:
    return (*map(Place, fold_names(match.modules)), *sources.lines(match.call_sites, report.environment))


def _calls(match: schemas.AdvisoryMatch) -> str:
    phases = ", ".join(f"{one_line(phase)} {number(count)}" for phase, count in match.phases.items())
    return f"{number(match.calls)} of {', '.join(map(one_line, match.operators))} ({phases})"


def _here(report: AnyReport, match: schemas.AdvisoryMatch) -> str | None:
    if report.kind == "coverage":
        return None
    return ranges(report, [match.id in cell.advisories for cell in report.releases])


def ranges(report: schemas.MatrixReport, having: Sequence[bool]) -> str:
    """The releases of which ``having`` says so, as ranges: ``2.8.0-2.9.1, 2.11.0``."""
    names = [cell.target.version for cell in report.releases]
    spans = (span(names, run[::-1]) for run in runs(range(len(names)), having.__getitem__) if having[run[0]])
    return ", ".join(spans) or "-"


def releases(affected_range: schemas.AffectedRange, *, brief: bool = False) -> str:
    """``from 2.8.0, fixed in 2.11.0``; what is not established is said to be, unless ``brief``."""
    if affected_range.every:
        return "every version"
    if affected_range.since is not None:
        start = f"from {affected_range.since}"
    elif affected_range.seen:
        code = _same_code(affected_range) or ("" if brief else "earlier ones: not established")
        start = f"seen on {' and '.join(affected_range.seen)}{f' ({code})' if code else ''}"
    else:
        return f"before {affected_range.fixed}" if affected_range.fixed is not None else "not established"
    if affected_range.fixed is not None:
        return f"{start}, fixed in {affected_range.fixed}"
    fixed = "fixed later" if brief else "fixed later (where: not established)"
    return f"{start}, {'no fix known' if affected_range.open else fixed}"


def _same_code(affected_range: schemas.AffectedRange) -> str:
    since, until = affected_range.same_code_since, affected_range.same_code_until
    if since and until:
        return f"the same code from {since} to {until}"
    return f"the same code since {since}" if since else f"the same code until {until}" if until else ""


def systems(affected_systems: schemas.AffectedSystems) -> str:
    """``15.0 and newer``; what is not established is said to be."""
    before = f"before {affected_systems.fixed}" if affected_systems.fixed is not None else ""
    if affected_systems.since is not None:
        return f"from {affected_systems.since} to {before}" if before else f"{affected_systems.since} and newer"
    if affected_systems.every or not affected_systems.seen:
        return "every version" if affected_systems.every else before or "not established"
    return ", ".join([f"seen on {' and '.join(affected_systems.seen)}", *([before] if before else [])])
