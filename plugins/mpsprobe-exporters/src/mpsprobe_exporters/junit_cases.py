"""Which test cases a report becomes, and which of them fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mpsprobe_exporters import advisories, answer, backends
from mpsprobe_exporters.document import Row, Table, facts, written
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.reports import comparison, coverage, profile
from mpsprobe_exporters.reports.profile_configurations import FIELDS, NAMED
from mpsprobe_exporters.supported import versions
from mpsprobe_exporters.units import measured, ratio

if TYPE_CHECKING:
    from mpsprobe.schemas import (
        ComparedAdvisory,
        ComparedCell,
        ComparedFailure,
        ComparedVerdict,
        ComparisonReport,
        CoverageReport,
        MatrixReport,
        ProfileCell,
        ProfileReport,
        RunFailure,
        SeveralReport,
        Target,
    )
    from mpsprobe_exporters.supported import SupportedReport

# These fail; what no table covers is skipped, since nothing is known of it.
FAILING = ("missing", "unsupported", "fallback", "advisory")
MOST_PLACES = 7
QUIET = ("too few samples", "not tested")


@dataclass(frozen=True, slots=True)
class Case:
    """One test case.

    Attributes:
        group: its ``classname``; readers make folders of its dots.
        name: of the case; unique within its suite.
        seconds: its ``time``; ``None`` for none.
        outcome: ``passed``, ``failure`` or ``skipped``.
        kind: of a failure (``missing``, ``slower``, an exception's name).
        message: why it failed or was skipped, in a sentence.
        output: further lines.
    """

    group: str
    name: str
    seconds: float | None = None
    outcome: str = "passed"
    kind: str = ""
    message: str = ""
    output: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """Cases under one name, with what they have in common."""

    name: str
    cases: list[Case]
    properties: list[tuple[str, str]] = field(default_factory=list)


def suites(report: SupportedReport) -> list[Suite]:
    """The suites: one, or of a matrix one for each release."""
    if report.kind == "profile":
        return [_profile(report)]
    if report.kind == "coverage":
        return [_coverage(report)]
    if report.kind == "coverage-several":
        return _several(report)
    if report.kind == "comparison":
        return [_comparison(report)]
    return _matrix(report) if report.kind == "coverage-matrix" else []


def _profile(report: ProfileReport) -> Suite:
    cases = [_configuration(report, cell) for cell in report.cells]
    devices = [(f"device {one.type}", one.name) for one in report.devices]
    return Suite("mpsprobe profile", cases, [*versions(report.environment).items(), *devices])


def _configuration(report: ProfileReport, cell: ProfileCell) -> Case:
    """``time`` is the median step, so that a reader's trend is that of the step."""
    shown = ((column, of(report, cell)) for column, of in FIELDS if column.title not in NAMED)
    lines = [f"{column.title}: {written(value, column.kind)}" for column, value in shown if value is not None]
    lines += [f"note: {line}" for line in profile.remarks_on(cell)]
    outcome, kind, message = "passed", "", ""
    if cell.failure is not None:
        outcome, kind = "failure", cell.failure.error
        message = f"stopped in {one_line(cell.failure.phase)}: {one_line(cell.failure.message)}"
    elif cell.step is None:
        outcome, message = "skipped", "nothing was timed"
    seconds = cell.step.median_ns / 1e9 if cell.step is not None else None
    group, name = f"mpsprobe.profile.{_part(cell.workload)}", comparison.configuration(cell)
    return Case(group, name, seconds, outcome, kind, message, tuple(lines))


def _coverage(report: CoverageReport) -> Suite:
    """One case for each operator; of several verdicts each is one."""
    group = _group(report, report.target)
    on = backends.on_release(report.target, report.target.version)
    cases = []
    judged = (*answer.findings(report), *answer.natives(report))
    table = Table(coverage.COLUMNS, coverage.operators(report, judged))
    for one, row in zip(judged, table.rows, strict=True):
        message = "no table covers it" if one.verdict == "unknown" else ""
        if one.verdict in FAILING:
            message = ": ".join(filter(None, (f"{one.verdict} on {on}", one_line(one.advice or "", 1000))))
        lines = (f"verdict: {one.verdict}", *_facts(table, row))
        verdict = "" if one.operator in report.allowed else one.verdict  # it does not fail
        cases.append(_judged(group, one.operator, verdict, message, lines))
    left = ((one.operator, f"not judged: {one_line(one.reason)}") for one in report.not_judged)
    cases += [_judged(group, name, "unknown", message) for name, message in left]
    known_wrong = advisories.table(report)
    for known, row in zip(report.advisories, known_wrong.rows, strict=True):
        message = f"{one_line(known.title)}: {one_line(known.workaround, 500)}"
        lines = _facts(known_wrong, row)
        cases.append(_judged(f"{group}.advisories", known.id, "advisory", message, lines))
    cases += [_whole(group, report.failure)] if report.failure is not None else []
    properties = [(f"judged {report.target.software}", report.target.version), ("method", report.method)]
    properties += versions(report.environment).items()
    properties += [("assumed", f"{one_line(one.operator)}: {one_line(one.assumed)}") for one in report.data_dependence]
    properties += [("composed otherwise", f"{one_line(name)}: {text}") for name, _, text in answer.compositions(report)]
    return Suite(f"mpsprobe coverage on {on}", cases, properties)


def _judged(group: str, name: str, verdict: str, message: str, output: tuple[str, ...] = ()) -> Case:
    """The case of an operator or of an advisory."""
    if verdict in FAILING:
        return Case(group, one_line(name), None, "failure", verdict, message, output)
    return Case(group, one_line(name), None, "skipped" if message else "passed", "", message, output)


def _whole(group: str, failure: RunFailure | None) -> Case:
    """The case of the run itself."""
    if failure is None:
        return Case(group, "the whole step runs")
    return Case(group, "the whole step runs", None, "failure", failure.error, answer.failure_sentence(failure))


def _facts(table: Table, row: Row) -> tuple[str, ...]:
    return tuple(f"{column.title}: {written(cell, column.kind, MOST_PLACES)}" for column, cell in facts(table, row))


def _group(report: CoverageReport | MatrixReport, target: Target) -> str:
    """The name of a group; another backend than MPS has one of its own."""
    other = backends.other(target)
    return f"mpsprobe.coverage.{_part(report.workload.name)}" + (f".{_part(other)}" if other else "")


def _matrix(report: MatrixReport) -> list[Suite]:
    """A suite for each release, with every operator that is not native in one of them."""
    made = []
    names = list(dict.fromkeys(name for cell in report.releases for name in cell.findings))
    for cell in report.releases:
        release = one_line(cell.target.version)
        group = f"{_group(report, cell.target)}.{cell.target.software} {_part(release)}"
        on = backends.on_release(cell.target, release)
        cases = []
        for name in names:
            verdict = cell.findings.get(name)
            missed = "not met before the run stopped" if cell.failure is not None else ""
            message = missed if verdict is None else f"{verdict} on {on}"
            cases.append(_judged(group, name, "" if name in report.allowed else verdict or "", message))
        cases += [_judged(group, known, "advisory", "a known wrong result") for known in cell.advisories]
        cases.append(_whole(group, cell.failure))
        made.append(Suite(f"mpsprobe coverage on {on}", cases, list(versions(report.environment).items())))
    return made


def _several(report: SeveralReport) -> list[Suite]:
    """The suites of each workload; what could not be judged is a case that fails."""
    made = [suite for one in report.workloads if one.report is not None for suite in suites(one.report)]
    cases = [
        Case("mpsprobe.coverage", one_line(one.name), one.seconds, "failure", "no report", one_line(one.error or ""))
        for one in report.workloads
        if one.report is None
    ]
    return [*made, *([Suite("mpsprobe coverage", cases)] if cases else [])]


def _comparison(report: ComparisonReport) -> Suite:
    cases = [case for cell in report.cells for case in _compared(cell)]
    for one in report.verdicts:
        line = f"{one.change}: {one.old or 'not called'}, now {one.new or 'not called'}"
        cases.append(_change("mpsprobe.diff.verdicts", one.operator, one, one.change, line))
    for known, line in zip(report.advisories, comparison.advisory_lines(report), strict=True):
        cases.append(_change("mpsprobe.diff.advisories", known.id, known, "advisory", line))
    for failure, line in zip(report.failures, comparison.failure_lines(report), strict=False):
        cases.append(_change("mpsprobe.diff", "the whole step runs", failure, "stopped", line))
    for lonely in report.unpaired:
        message = f"in the {'old' if lonely.presence == 'gone' else 'new'} report only"
        cases.append(Case("mpsprobe.diff", comparison.configuration(lonely), None, "skipped", message=message))
    properties = [("old", report.old.source), ("new", report.new.source)]
    properties += [("differs", line) for line in comparison.condition_lines(report)]
    properties += [("method", line) for line in comparison.method_lines(report)]
    return Suite("mpsprobe diff", cases, properties)


def _change(
    group: str, name: str, one: ComparedVerdict | ComparedAdvisory | ComparedFailure, kind: str, line: str
) -> Case:
    """What differs between two reports of coverage."""
    on = f" on torch {one_line(one.release)}" if one.release else ""
    return Case(group, one_line(name) + on, None, "failure" if one.regression else "passed", kind, line, (line,))


def _compared(cell: ComparedCell) -> Iterator[Case]:
    """One case for each quantity and fallback of a configuration; operators are shown, not tested."""
    group = f"mpsprobe.diff.{_part(comparison.configuration(cell))}"
    for one in cell.quantities:
        said = f"{one.difference}: {measured(one.old, one.unit)}, now {measured(one.new, one.unit)}"
        said += f", ratio {ratio(one.ratio)}" if one.ratio is not None else ""
        between = comparison.interval(one)
        said += f" ({between})" if between else ""
        outcome = "failure" if one.regression else "skipped" if one.difference in QUIET else "passed"
        seconds = one.new / 1e9 if one.unit == "ns" else None
        output = (said, *([one_line(one.note)] if one.note else []))
        yield Case(group, one_line(one.name), seconds, outcome, one.difference, said, output)
    for left in cell.fallbacks:
        outcome, line = "failure" if left.regression else "passed", comparison.fallback_line(left)
        yield Case(group, f"on MPS: {one_line(left.operator)}", None, outcome, "fallback", line, (line,))
    if cell.regression or cell.old_failure is not None:
        message = "; ".join(comparison.ends(cell))
        yield Case(group, "runs to its end", None, "failure" if cell.regression else "passed", "stopped", message)


def _part(text: str) -> str:
    """A part of a class name: readers split at dots."""
    return one_line(text, 100).replace(".", "_") or "unnamed"
