"""What a report says of known wrong results, in sentences, for every format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import release_grid
from mpsprobe_exporters.places import where
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from mpsprobe.schemas import AdvisoryMatch, AffectedRange, AffectedSystems, CoverageReport, MatrixReport

    AnyReport = CoverageReport | MatrixReport

LONGEST = 1000


def title(report: AnyReport) -> str:
    """The heading: of a single release it names the release."""
    return "Known wrong results" + (f" on torch {one_line(report.target.torch)}" if report.kind == "coverage" else "")


def heading(one: AdvisoryMatch) -> tuple[str, str]:
    """Identifier and title."""
    return one_line(one.id), one_line(one.title)


def facts(report: AnyReport, one: AdvisoryMatch) -> Iterator[tuple[str, str]]:
    """Label and text of what is told of one; the places are those of this workload, the rest is about the operator."""
    if found := where(one):
        yield "where", found
    phases = ", ".join(f"{one_line(phase)} {number(count)}" for phase, count in one.phases.items())
    yield "calls", f"{number(one.calls)} of {', '.join(map(one_line, one.operators))} ({phases})"
    yield "when", one_line(one.condition, LONGEST)
    yield "what", one_line(one.symptom, LONGEST)
    yield "do", one_line(one.workaround, LONGEST)
    if report.kind == "coverage-matrix":
        yield "here on", release_grid.advised(report, one.id)
    yield "torch", one_line(releases(one.torch))
    yield "macOS", one_line(systems(one.macos))
    if one.hardware is not None:
        yield "hardware", one_line(one.hardware)
    yield "sources", ", ".join(one_line(source) for source in one.sources)


def releases(one: AffectedRange) -> str:
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


def systems(one: AffectedSystems) -> str:
    """``15.0 and newer``; what is not established is said to be."""
    before = f"before {one.fixed}" if one.fixed is not None else ""
    if one.since is not None:
        return f"from {one.since} to {before}" if before else f"{one.since} and newer"
    if one.every or not one.seen:
        return "every version" if one.every else before or "not established"
    return ", ".join([f"seen on {' and '.join(one.seen)}", *([before] if before else [])])
