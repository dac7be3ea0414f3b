"""Which test cases a report becomes, and which of them fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mpsprobe_exporters import advisories, answer, backends
from mpsprobe_exporters.document import Row, Table, facts, written
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.reports import comparison, coverage, profile
from mpsprobe_exporters.units import measured, ratio

if TYPE_CHECKING:
    from mpsprobe.schemas import (
        ComparedAdvisory,
        ComparedCell,
        ComparedFailure,
        ComparedVerdict,
        ComparisonReport,
        ConfigurationKey,
        CoverageReport,
        MatrixReport,
        ProfileCell,
        ProfileReport,
        Target,
    )
    from mpsprobe.schemas.environment import Environment
    from mpsprobe_exporters.supported import SupportedReport

# These fail; what no table covers is skipped, since nothing is known of it.
FAILING = ("missing", "unsupported", "fallback")
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
    if report.kind == "coverage-matrix":
        return _matrix(report)
    return [_comparison(report)]


def _profile(report: ProfileReport) -> Suite:
    cases = [_configuration(report, cell) for cell in report.cells]
    devices = [(f"device {one.type}", one.name) for one in report.devices]
    return Suite("mpsprobe profile", cases, [*_environment(report.environment), *devices])


def _configuration(report: ProfileReport, cell: ProfileCell) -> Case:
    """``time`` is the median step, so that a reader's trend is that of the step."""
    name = comparison.configuration(_key(cell))
    group = f"mpsprobe.profile.{_part(cell.workload)}"
    lines = [f"{title}: {text}" for title, text in _figures(report, cell) if text]
    seconds = cell.step.median_ns / 1e9 if cell.step is not None else None
    if cell.failure is not None:
        message = f"stopped in {one_line(cell.failure.phase)}: {one_line(cell.failure.message)}"
        return Case(group, name, seconds, "failure", cell.failure.error, message, tuple(lines))
    if cell.step is None:
        return Case(group, name, None, "skipped", message="nothing was timed", output=tuple(lines))
    return Case(group, name, seconds, output=tuple(lines))


def _figures(report: ProfileReport, cell: ProfileCell) -> Iterator[tuple[str, str]]:
    for column, of in profile.FIELDS:
        if column.title not in profile.NAMED:
            yield column.title, written(of(report, cell), column.kind)
    for line in profile.remarks_on(cell):
        yield "note", line


def _key(cell: ProfileCell) -> ConfigurationKey:
    from mpsprobe.schemas import ConfigurationKey

    return ConfigurationKey.model_construct(**{name: getattr(cell, name) for name in ConfigurationKey.model_fields})


def _coverage(report: CoverageReport) -> Suite:
    """One case for each operator; of several verdicts each is one."""
    group = f"mpsprobe.coverage.{_part(report.workload.name)}{_backend(report.target)}"
    release = report.target.torch
    cases = []
    judged = (*answer.findings(report), *answer.natives(report))
    table = Table(coverage.COLUMNS, coverage.operators(report, judged))
    for one, row in zip(judged, table.rows, strict=True):
        lines = (f"verdict: {one.verdict}", *_facts(table, row))
        name = one_line(one.operator)
        if one.verdict in FAILING:
            on = backends.on_release(report.target, release)
            message = ": ".join(filter(None, (f"{one.verdict} on {on}", answer.advice(one))))
            cases.append(Case(group, name, None, "failure", one.verdict, message, lines))
        elif one.verdict == "unknown":
            cases.append(Case(group, name, None, "skipped", message="no table covers it", output=lines))
        else:
            cases.append(Case(group, name, output=lines))
    cases += [
        Case(group, one_line(left.operator), None, "skipped", message=f"not judged: {one_line(left.reason)}")
        for left in report.not_judged
    ]
    known_wrong = advisories.table(report)
    for known, row in zip(report.advisories, known_wrong.rows, strict=True):
        message = f"{one_line(known.title)}: {one_line(known.workaround, 500)}"
        cases.append(
            Case(
                f"{group}.advisories",
                one_line(known.id),
                None,
                "failure",
                "advisory",
                message,
                _facts(known_wrong, row),
            )
        )
    if report.failure is not None:
        message = answer.failure_sentence(report.failure)
        cases.append(Case(group, "the whole step runs", None, "failure", report.failure.error, message))
    properties = [("judged torch", release), ("method", report.method), *_environment(report.environment)]
    properties += [("assumed", f"{one_line(one.operator)}: {one_line(one.assumed)}") for one in report.data_dependence]
    properties += [("composed otherwise", f"{one_line(name)}: {text}") for name, _, text in answer.compositions(report)]
    return Suite(f"mpsprobe coverage on {backends.on_release(report.target, release)}", cases, properties)


def _facts(table: Table, row: Row) -> tuple[str, ...]:
    return tuple(f"{column.title}: {written(cell, column.kind, MOST_PLACES)}" for column, cell in facts(table, row))


def _backend(target: Target) -> str:
    """The part of a group's name for another backend than MPS."""
    other = backends.other(target)
    return f".{_part(other)}" if other else ""


def _matrix(report: MatrixReport) -> list[Suite]:
    """A suite for each release, with every operator that is not native in one of them."""
    made = []
    names = list(dict.fromkeys(name for cell in report.releases for name in cell.findings))
    for cell in report.releases:
        release = one_line(cell.target.torch)
        group = f"mpsprobe.coverage.{_part(report.workload.name)}{_backend(cell.target)}.torch {_part(release)}"
        cases = []
        for name in names:
            verdict = cell.findings.get(name)
            message = f"{verdict} on {backends.on_release(cell.target, release)}"
            outcome = "failure" if verdict in FAILING else "skipped" if verdict == "unknown" else "passed"
            if verdict is None and cell.failure is not None:
                outcome, message = "skipped", "not met before the run stopped"
            cases.append(Case(group, one_line(name), None, outcome, verdict or "", message))
        told = (None, "failure", "advisory", "a known wrong result")
        cases += [Case(group, one_line(advisory), *told) for advisory in cell.advisories]
        message = answer.failure_sentence(cell.failure) if cell.failure is not None else ""
        outcome = "failure" if cell.failure is not None else "passed"
        kind = cell.failure.error if cell.failure is not None else ""
        cases.append(Case(group, "the whole step runs", None, outcome, kind, message))
        on = backends.on_release(cell.target, release)
        made.append(Suite(f"mpsprobe coverage on {on}", cases, _environment(report.environment)))
    return made


def _comparison(report: ComparisonReport) -> Suite:
    cases: list[Case] = []
    for cell in report.cells:
        cases += _compared(report, cell)
    for one in report.verdicts:
        message = f"{one.change}: {one.old or 'not called'}, now {one.new or 'not called'}"
        cases.append(_change("mpsprobe.diff.verdicts", one_line(one.operator), one, one.change, message))
    lines = zip(report.advisories, comparison.advisory_lines(report), strict=True)
    for known, line in lines:
        cases.append(_change("mpsprobe.diff.advisories", one_line(known.id), known, "advisory", line))
    for failure, line in zip(report.failures, comparison.failure_lines(report), strict=False):
        cases.append(_change("mpsprobe.diff", "the whole step runs", failure, "stopped", line))
    for lonely in report.unpaired:
        name = comparison.configuration(lonely)
        where = "old" if lonely.presence == "gone" else "new"
        cases.append(Case("mpsprobe.diff", name, None, "skipped", message=f"in the {where} report only"))
    properties = [("old", report.old.source), ("new", report.new.source)]
    properties += [("differs", line) for line in comparison.condition_lines(report)]
    properties += [("method", line) for line in comparison.method_lines(report)]
    return Suite("mpsprobe diff", cases, properties)


def _change(
    group: str, name: str, one: ComparedVerdict | ComparedAdvisory | ComparedFailure, kind: str, line: str
) -> Case:
    """What differs between two reports of coverage."""
    on = f" on torch {one_line(one.release)}" if one.release else ""
    return Case(group, name + on, None, "failure" if one.regression else "passed", kind, line, (line,))


def _compared(report: ComparisonReport, cell: ComparedCell) -> Iterator[Case]:
    """One case for each quantity and fallback of a configuration; operators are told, not tested."""
    name = comparison.configuration(cell)
    group = f"mpsprobe.diff.{_part(name)}"
    for one in cell.quantities:
        old, new = (measured(value, one.unit) for value in (one.old, one.new))
        told = f"{one.difference}: {old}, now {new}"
        told += f", ratio {ratio(one.ratio)}" if one.ratio is not None else ""
        between = comparison.interval(one)
        told += f" ({between})" if between else ""
        outcome = "failure" if one.regression else "skipped" if one.difference in QUIET else "passed"
        seconds = one.new / 1e9 if one.unit == "ns" else None
        output = (told, *([one_line(one.note)] if one.note else []))
        yield Case(group, one_line(one.name), seconds, outcome, one.difference, told, output)
    for left, line in zip(cell.fallbacks, comparison.fallback_lines(cell), strict=True):
        outcome = "failure" if left.regression else "passed"
        yield Case(group, f"on MPS: {one_line(left.operator)}", None, outcome, "fallback", line, (line,))
    if cell.regression or cell.old_failure is not None:
        message = "; ".join(comparison.cell_notes(cell)[:1])
        yield Case(group, "runs to its end", None, "failure" if cell.regression else "passed", "stopped", message)


def _environment(environment: Environment | None) -> list[tuple[str, str]]:
    if environment is None:
        return []
    found = [(name, getattr(environment, name)) for name in ("mpsprobe", "torch", "transformers", "python", "platform")]
    return [(name, value) for name, value in found if value is not None]


def _part(text: str) -> str:
    """A part of a class name: readers split at dots."""
    return one_line(text, 100).replace(".", "_") or "unnamed"
