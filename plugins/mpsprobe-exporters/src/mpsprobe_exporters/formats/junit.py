"""JUnit XML, which Jenkins, GitLab and most actions for GitHub show as a list of passed and failed tests.

Elements and attributes are those that the schema of Jenkins' reader has (junit-10.xsd of its xUnit plugin); everything
else about a case stands in its ``system-out``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as Xml

from mpsprobe_exporters import advisories, answer, backends
from mpsprobe_exporters.document import Row, Table, facts, written
from mpsprobe_exporters.plain_text import REPLACEMENT, one_line
from mpsprobe_exporters.reports import comparison, coverage, profile, profile_configurations
from mpsprobe_exporters.supported import supported_report, versions
from mpsprobe_exporters.units import measured, ratio

if TYPE_CHECKING:
    from mpsprobe import schemas
    from mpsprobe.schemas.report import Report
    from mpsprobe_exporters.supported import SupportedReport

    Changed = schemas.ComparedVerdict | schemas.ComparedAdvisory | schemas.ComparedFailure

# These fail; what no table covers is skipped, since nothing is known of it.
FAILING = ("missing", "unsupported", "fallback", "advisory")
MOST_PLACES = 7
LONGEST_ATTRIBUTE = 1000
QUIET = ("too few samples", "not tested")
WHOLE = "the whole step runs"
COVERAGE = "mpsprobe.coverage"


class Case(NamedTuple):
    group: str  # its ``classname``; readers make folders of its dots
    name: str
    outcome: str = "passed"  # or ``failure``, ``skipped``
    kind: str = ""  # of a failure: ``missing``, ``slower``, an exception's name
    message: str = ""
    output: Sequence[str] = ()
    seconds: float | None = None


class Suite(NamedTuple):
    name: str
    cases: Sequence[Case]
    properties: Iterable[tuple[str, str]] = ()  # what the cases have in common


class JunitExporter:
    """A profile: one case for each configuration. Coverage: one for each operator; of many releases a suite for each.
    A comparison: one for each quantity, fallback and verdict, which fails if it is a regression.
    """

    def render(self, report: Report) -> str:
        suites = list(_suites(supported_report(report, "junit")))
        counts = _counts([case for suite in suites for case in suite.cases])
        del counts["skipped"]  # the schema has it of a suite only
        root = Xml.Element("testsuites", {"name": "mpsprobe", **counts})
        root.extend(map(_suite, suites))
        Xml.indent(root)
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _suite(suite: Suite) -> Xml.Element:
    parent = Xml.Element("testsuite", {"name": _attribute(suite.name), **_counts(suite.cases)})
    if pairs := list(suite.properties):
        properties = Xml.SubElement(parent, "properties")
        for name, value in pairs:
            Xml.SubElement(properties, "property", {"name": _attribute(name), "value": _attribute(value)})
    taken: Counter[tuple[str, str]] = Counter()
    for case in suite.cases:
        group, name = _attribute(case.group), _attribute(case.name)
        taken[group, name] += 1
        if taken[group, name] > 1:  # readers keep the history of a case by its name
            name = f"{name} ({taken[group, name]})"
        spent = {} if case.seconds is None else {"time": _seconds(case.seconds)}
        element = Xml.SubElement(parent, "testcase", {"name": name, "classname": group, **spent})
        if case.outcome == "failure":
            about = {"message": _attribute(case.message), "type": _attribute(case.kind)}
            Xml.SubElement(element, "failure", about).text = _legal(case.message)
        elif case.outcome == "skipped":
            Xml.SubElement(element, "skipped", {"message": _attribute(case.message)})
        if case.output:
            Xml.SubElement(element, "system-out").text = _legal("\n".join(case.output))
    return parent


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    outcomes = Counter(case.outcome for case in cases)
    counts = {"tests": len(cases), "failures": outcomes["failure"], "errors": 0, "skipped": outcomes["skipped"]}
    time = _seconds(sum(case.seconds or 0 for case in cases))
    return {**{name: str(count) for name, count in counts.items()}, "time": time}


def _seconds(value: float) -> str:
    return f"{max(value, 0.0):.9f}"


def _attribute(text: str) -> str:
    """One line: readers show attributes in lists, and XML turns their line ends into spaces anyway."""
    clean = " ".join(_legal(text).split())
    return clean if len(clean) <= LONGEST_ATTRIBUTE else clean[: LONGEST_ATTRIBUTE - 1] + "…"


def _legal(text: str) -> str:
    """Without what XML 1.0 cannot hold, not even as a reference, and what would draw on a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else REPLACEMENT for c in text)


def _suites(report: SupportedReport) -> Iterator[Suite]:
    if report.kind == "profile":
        cases = [_configuration(report, cell) for cell in report.cells]
        devices = [(f"device {device.type}", device.name) for device in report.devices]
        yield Suite("mpsprobe profile", cases, [*versions(report.environment).items(), *devices])
    elif report.kind == "comparison":
        yield _comparison(report)
    elif report.kind == "coverage":
        yield _coverage(report)
    elif report.kind == "coverage-matrix":
        yield from _matrix(report)
    elif report.kind == "coverage-several":
        cases = []
        for workload in report.workloads:
            if workload.report is not None:
                yield from _suites(workload.report)
            else:
                name, message = one_line(workload.name), one_line(workload.error or "")
                cases.append(Case(COVERAGE, name, "failure", "no report", message, (), workload.seconds))
        if cases:
            yield Suite("mpsprobe coverage", cases)


def _configuration(report: schemas.ProfileReport, cell: schemas.ProfileCell) -> Case:
    """``time`` is the median step, so that a reader's trend is that of the step."""
    lines = [
        f"{column.title}: {written(value, column.kind)}"
        for column, of in profile_configurations.FIELDS
        if column.title not in profile_configurations.NAMED and (value := of(report, cell)) is not None
    ]
    lines += [f"note: {line}" for line in profile.remarks_on(cell)]
    outcome, kind, message = "passed", "", ""
    if cell.failure is not None:
        outcome, kind = "failure", cell.failure.error
        message = f"stopped in {one_line(cell.failure.phase)}: {one_line(cell.failure.message)}"
    elif cell.step is None:
        outcome, message = "skipped", "nothing was timed"
    seconds = cell.step.median_ns / 1e9 if cell.step is not None else None
    group, name = f"mpsprobe.profile.{_part(cell.workload)}", comparison.configuration(cell)
    return Case(group, name, outcome, kind, message, lines, seconds)


def _coverage(report: schemas.CoverageReport) -> Suite:
    """One case for each operator; of several verdicts each is one."""
    group = _group(report, report.target)
    on = backends.on_release(report.target)
    cases = []
    judged = (*answer.findings(report), *answer.natives(report))
    table = Table(coverage.COLUMNS, coverage.operators(report, judged))
    for finding, row in zip(judged, table.rows, strict=True):
        name, verdict = finding.operator, finding.verdict
        message = "no table covers it" if verdict == "unknown" else ""
        if verdict in FAILING:
            message = ": ".join(filter(None, (f"{verdict} on {on}", one_line(finding.advice or "", 1000))))
        output = [f"verdict: {verdict}", *_facts(table, row)]
        cases.append(_judged(group, name, "" if name in report.allowed else verdict, message, output))
    cases += [
        _judged(group, call.operator, "unknown", f"not judged: {one_line(call.reason)}") for call in report.not_judged
    ]
    wrong = advisories.table(report)
    for known, row in zip(report.advisories, wrong.rows, strict=True):
        message = f"{one_line(known.title)}: {one_line(known.workaround, 500)}"
        failing = "" if known.undecided else "advisory"
        cases.append(_judged(f"{group}.advisories", known.id, failing, message, _facts(wrong, row)))
    cases += [_stopped(group, report.failure)] if report.failure is not None else []
    properties = [(f"judged {report.target.software}", report.target.version), ("method", report.method)]
    properties += versions(report.environment).items()
    properties += [
        ("assumed", f"{one_line(read.operator)}: {one_line(read.assumed)}") for read in report.data_dependence
    ]
    properties += [("composed otherwise", f"{one_line(name)}: {text}") for name, _, text in answer.compositions(report)]
    return Suite(f"mpsprobe coverage on {on}", cases, properties)


def _matrix(report: schemas.MatrixReport) -> Iterator[Suite]:
    names = list(dict.fromkeys(name for cell in report.releases for name in cell.findings))
    for cell in report.releases:
        group = f"{_group(report, cell.target)}.{cell.target.software} {_part(cell.target.version)}"
        on = backends.on_release(cell.target)
        cases = []
        for name in names:
            verdict = cell.findings.get(name)
            missed = "not met before the run stopped" if cell.failure is not None else ""
            message = missed if verdict is None else f"{verdict} on {on}"
            cases.append(_judged(group, name, "" if name in report.allowed else verdict or "", message))
        cases += [_judged(group, known, "advisory", "a known wrong result") for known in cell.advisories]
        cases.append(_stopped(group, cell.failure) if cell.failure is not None else Case(group, WHOLE))
        yield Suite(f"mpsprobe coverage on {on}", cases, versions(report.environment).items())


def _group(report: schemas.CoverageReport | schemas.MatrixReport, target: schemas.Target) -> str:
    """Another backend than MPS has a group of its own."""
    other = backends.other(target)
    return f"{COVERAGE}.{_part(report.workload.name)}" + (f".{_part(other)}" if other else "")


def _judged(group: str, name: str, verdict: str, message: str, output: Sequence[str] = ()) -> Case:
    if verdict in FAILING:
        return Case(group, one_line(name), "failure", verdict, message, output)
    return Case(group, one_line(name), "skipped" if message else "passed", "", message, output)


def _stopped(group: str, failure: schemas.RunFailure) -> Case:
    return Case(group, WHOLE, "failure", failure.error, answer.failure_sentence(failure))


def _facts(table: Table, row: Row) -> list[str]:
    return [f"{column.title}: {written(cell, column.kind, MOST_PLACES)}" for column, cell in facts(table, row)]


def _comparison(report: schemas.ComparisonReport) -> Suite:
    cases = [case for cell in report.cells for case in _compared(cell)]
    for verdict in report.verdicts:
        line = f"{verdict.change}: {verdict.old or 'not called'}, now {verdict.new or 'not called'}"
        cases.append(_change("mpsprobe.diff.verdicts", verdict.operator, verdict, verdict.change, line))
    for known, line in zip(report.advisories, comparison.advisory_lines(report), strict=True):
        cases.append(_change("mpsprobe.diff.advisories", known.id, known, "advisory", line))
    for failure, line in zip(report.failures, comparison.failure_lines(report), strict=False):
        cases.append(_change("mpsprobe.diff", WHOLE, failure, "stopped", line))
    for lonely in report.unpaired:
        message = comparison.unpaired(lonely)
        cases.append(Case("mpsprobe.diff", comparison.configuration(lonely), "skipped", message=message))
    properties = [("old", report.old.source), ("new", report.new.source)]
    properties += [("differs", line) for line in comparison.condition_lines(report)]
    properties += [("method", line) for line in comparison.method_lines(report)]
    return Suite("mpsprobe diff", cases, properties)


def _change(group: str, name: str, difference: Changed, kind: str, line: str) -> Case:
    on = f" on torch {one_line(difference.release)}" if difference.release else ""
    return Case(group, one_line(name) + on, "failure" if difference.regression else "passed", kind, line, [line])


def _compared(cell: schemas.ComparedCell) -> Iterator[Case]:
    """One case for each quantity and fallback of a configuration; operators are shown, not tested."""
    group = f"mpsprobe.diff.{_part(comparison.configuration(cell))}"
    for quantity in cell.quantities:
        old, new = (measured(value, quantity.unit) for value in (quantity.old, quantity.new))
        line = f"{quantity.difference}: {old}, now {new}"
        line += f", ratio {ratio(quantity.ratio)}" if quantity.ratio is not None else ""
        between = comparison.interval(quantity)
        line += f" ({between})" if between else ""
        outcome = "failure" if quantity.regression else "skipped" if quantity.difference in QUIET else "passed"
        output = [line, *([one_line(quantity.note)] if quantity.note else [])]
        seconds = quantity.new / 1e9 if quantity.unit == "ns" else None
        yield Case(group, one_line(quantity.name), outcome, quantity.difference, line, output, seconds)
    for left in cell.fallbacks:
        outcome, line = "failure" if left.regression else "passed", comparison.fallback_line(left)
        yield Case(group, f"on MPS: {one_line(left.operator)}", outcome, "fallback", line, [line])
    if cell.regression or cell.old_failure is not None:
        message = "; ".join(comparison.ends(cell))
        yield Case(group, "runs to its end", "failure" if cell.regression else "passed", "stopped", message)


def _part(text: str) -> str:
    """A part of a class name: readers split at dots."""
    return one_line(text, 100).replace(".", "_") or "unnamed"
