"""What a report finds, one by one, each with its line in the repository: what SARIF is made of, and annotations.

Annotations are workflow commands of GitHub Actions: printed by a job, they stand on the lines that they name.
"""

from __future__ import annotations

import ast
import os.path
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from mpsprobe_exporters import advisories, answer, backends
from mpsprobe_exporters.module_names import fold_names
from mpsprobe_exporters.plain_text import call_site, listed, one_line, plural, sentence, shortened
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas import AdvisoryMatch, CoverageReport, MatrixReport, RunFailure, SeveralReport, Verdict
    from mpsprobe.schemas.report import Report
    from mpsprobe_exporters.supported import AnyReport

    Names = Sequence[str]

Level = Literal["error", "warning", "note"]
RULES: dict[Level, tuple[str, ...]] = {
    "error": ("missing", "unsupported", "stopped", "no-report"),
    "warning": ("fallback", "advisory", "on-the-cpu", "written-for-cuda"),
    "note": ("unknown", "not-judged"),
}
"""How bad a result is, by the first part of its rule: a Mac raises, it is slow or wrong there, or nobody knows."""
LEVELS = {rule: level for level, rules in RULES.items() for rule in rules}
ORDER = tuple(RULES)
MOST_LINES = 10  # of one finding
MOST_NAMED = 3
LONGEST = 1000
COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
CLEAN = "::notice title=mpsprobe::Nothing is to do for MPS."
# What would end a message or a property early; the runner turns them back (actions/toolkit, command.ts).
IN_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
IN_PROPERTY = {**IN_MESSAGE, **str.maketrans({":": "%3A", ",": "%2C"})}
OF_OTHERS = {"site-packages", "dist-packages"}
"""Folders below which nothing is the repository's own, though a virtual environment may be within it."""


class Line(NamedTuple):
    """A line of a file: ``path`` from the root of the repository, with forward slashes; ``number`` from 1."""

    path: str
    number: int


@dataclass(frozen=True, slots=True)
class Result:
    """One thing to see at one line of the repository, or where the report says that the calls are (``sites``)."""

    rule: str  # a verdict and the kind of its evidence (``missing/registration``), or ``advisory``, …
    about: str  # the operator, the advisory, …
    message: str
    sites: Sequence[str] = ()
    modules: tuple[str, ...] = ()
    allowed: bool = False
    workload: str = ""
    line: Line | None = None

    @property
    def level(self) -> Level:
        return LEVELS[self.rule.partition("/")[0]]


class Repository:
    """The repository around the current folder: where ``.git`` is; without one, the folder itself.

    A report names a line by its path below the folder that the file is imported from. Where that is, is looked up on
    the machine that writes: in the repository, with the packages of the report installed.
    """

    def __init__(self) -> None:
        self._here = Path.cwd()
        folders = (self._here, *self._here.parents)
        self.root = next((folder for folder in folders if (folder / ".git").exists()), self._here)
        self._files: dict[tuple[str, str], str | None] = {}

    def workload(self, name: str) -> Line | None:
        """Where ``path/to/file.py:function`` begins, or a script; ``None`` for a workload that is no file here."""
        path, colon, function = name.rpartition(":")
        if not (colon and path.lower().endswith(".py")):
            path, function = name, ""
        file = self._own(self._here / path) if path.lower().endswith(".py") else None
        return Line(file, _line_of(self.root / file, function)) if file else None

    def line(self, site: str, workload: str) -> Line | None:
        """The line that a report calls ``file:line``; files are imported from the folder of a user's workload too."""
        path, _, number = site.rpartition(":")
        if not (path and number.isascii() and number.isdecimal() and int(number[:9]) > 0):
            return None
        if (path, workload) not in self._files:
            self._files[path, workload] = self._file(path, workload)
        file = self._files[path, workload]
        return Line(file, int(number[:9])) if file else None

    def _file(self, path: str, workload: str) -> str | None:
        file = self.workload(workload)
        folders = [(self.root / file.path).parent] if file else []
        folders += [self._here, self.root, *(self._here / entry for entry in sys.path if entry)]
        return next(filter(None, (self._own(folder / path) for folder in folders)), None)

    def _own(self, path: Path) -> str | None:
        if not os.path.isfile(path):  # noqa: PTH113 - Path raises for a name that is too long
            return None
        whole, root = path.resolve(), self.root.resolve()
        if not whole.is_relative_to(root) or OF_OTHERS.intersection(whole.parts):
            return None
        return whole.relative_to(root).as_posix()


def _line_of(path: Path, function: str) -> int:
    """Where a function of a file begins; its first line where there is none, or the file is no Python."""
    try:
        body = ast.parse(path.read_bytes()).body if function else []
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        body = []
    named = (node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == function)
    return next((node.lineno for node in named), 1)


def results(report: AnyReport | SeveralReport, repository: Repository) -> list[Result]:
    """Everything that a report finds, the worst first: one for each line of the repository that has it."""
    return sorted(_found(report, repository), key=lambda result: ORDER.index(result.level))


def _found(report: AnyReport | SeveralReport, repository: Repository) -> Iterator[Result]:
    if report.kind == "coverage-several":
        for workload in report.workloads:
            yield from _found(workload.report, repository) if workload.report else ()
        for workload in report.workloads:
            if workload.error is not None:
                message = one_line(": ".join(filter(None, (workload.error, workload.hint))), LONGEST)
                yield Result("no-report", "", message or "no report", workload=workload.name)
    else:
        for result in _of_release(report) if report.kind == "coverage" else _of_matrix(report):
            yield from _at_lines(replace(result, workload=report.workload.name), repository)


def _at_lines(result: Result, repository: Repository) -> Iterator[Result]:
    """``result`` at each line of the repository; without any, once, and its message says where the calls are."""
    sites = list(dict.fromkeys(result.sites))
    own = [line for site in sites if (line := repository.line(site, result.workload)) is not None]
    for line in list(dict.fromkeys(own))[:MOST_LINES]:
        yield replace(result, line=line)
    if not own:
        places = shortened([*map(call_site, sites)], MOST_NAMED)
        places = places or [f"in {name}" for name in shortened(list(result.modules), 1)]
        where = f" Called at {listed(places)}." if places else ""
        yield replace(result, message=one_line(result.message + where, LONGEST))


def _of_release(report: CoverageReport) -> Iterator[Result]:
    text: tuple[str | None, ...]
    on = backends.on_release(report.target)
    for finding in answer.findings(report):
        rule = f"{finding.verdict}/{finding.source}" if finding.source else finding.verdict
        text = (_judged(finding.operator, finding.verdict, report, on), finding.reason, finding.advice)
        result = _result(rule, finding.operator, text, finding.call_sites, finding.modules)
        yield replace(result, allowed=finding.operator in report.allowed)
    yield from _others(report, lambda known: on)
    if report.failure is not None:
        yield _stopped(report.failure, on)
    program = report.program
    for stayed in program.stayed_on_cpu if program else ():
        text = (f"{stayed.module} stayed on the CPU, while MPS was there", 'Move it there with .to("mps")')
        yield _result("on-the-cpu", stayed.module, text, _site(stayed.call_site))
    for line in program.computed_on_cpu if program else ():
        text = (f"{', '.join(line.operators)} computed on the CPU, while MPS was there",)
        yield _result("on-the-cpu", line.operators[0], text, _site(line.call_site))
    for hint in program.cuda if program else ():
        text = (f"{hint.what} is written for CUDA, which no Mac has", f"Write {hint.instead}")
        yield _result("written-for-cuda", hint.what, text, hint.call_sites)


def _of_matrix(report: MatrixReport) -> Iterator[Result]:
    """An operator under each of its verdicts once, with the releases; its lines are those of the newest release."""
    operators = {finding.operator: finding for finding in report.operators}
    cells = report.releases
    pairs: dict[tuple[str, Verdict], None] = {}
    for cell in reversed(cells):
        pairs |= dict.fromkeys(pair for pair in cell.findings.items() if pair[1] in answer.FINDINGS)
    for operator, verdict in pairs:
        on = _releases(report, [cell.findings.get(operator) == verdict for cell in cells])
        newest = operators.get(operator)
        same = newest if newest and newest.verdict == verdict else None
        rule = f"{verdict}/{same.source}" if same and same.source else verdict
        text = (_judged(operator, verdict, report, on), same.advice if same else None)
        sites, modules = (newest.call_sites, newest.modules) if newest else ((), ())
        yield replace(_result(rule, operator, text, sites, modules), allowed=operator in report.allowed)
    yield from _others(report, lambda known: _releases(report, [known.id in cell.advisories for cell in cells]))
    for failure in {str(cell.failure): cell.failure for cell in cells if cell.failure is not None}.values():
        yield _stopped(failure, _releases(report, [cell.failure == failure for cell in cells]))


def _others(report: AnyReport, on: Callable[[AdvisoryMatch], str]) -> Iterator[Result]:
    for known in report.advisories:
        condition = f" if {known.condition}" if known.undecided else ""
        text = (f"Known wrong result on {on(known)}{condition}: {known.title}", known.workaround)
        yield _result("advisory", known.id, text, known.call_sites, known.modules)
    for left in report.not_judged:
        yield _result("not-judged", left.operator, (f"{left.operator} is not judged: {left.reason}",), left.call_sites)


def _result(rule: str, about: str, text: Iterable[str | None], sites: Names, modules: Names = ()) -> Result:
    first, *rest = (one_line(part or "", LONGEST).rstrip(".") for part in text)
    message = "".join(f"{part}. " for part in (first, *map(sentence, rest)) if part)
    return Result(rule, one_line(about), one_line(message, LONGEST), sites, tuple(fold_names(modules)))


def _judged(operator: str, verdict: str, report: AnyReport, on: str) -> str:
    """``aten::linalg_eig has no MPS kernel on torch 2.13.0``."""
    return f"{operator} {answer.SAYS[verdict][0].format(backends.label(backends.target(report)))} on {on}"


def _stopped(failure: RunFailure, on: str) -> Result:
    text = (f"The run stopped in {failure.phase} on {on}: {failure.error}: {failure.message}",)
    return _result("stopped", failure.error, text, _site(failure.call_site))


def _site(site: str | None) -> Sequence[str]:
    return [site] if site else []


def _releases(report: MatrixReport, having: Sequence[bool]) -> str:
    """``torch 2.6.0-2.8.0 (4 of 9 releases)``."""
    count = sum(having)
    of = f" ({count} of {plural(len(having), 'release')})" if count > 1 else ""
    return f"torch {advisories.ranges(report, having)}{of}"


class AnnotationsExporter:
    """A line for each result, the worst first: GitHub shows ten errors, ten warnings and ten notices of a step."""

    def render(self, report: Report) -> str:
        findings = results(supported_report(report, "annotations"), Repository())
        lines = [_command(result) for result in findings if not result.allowed]
        return "\n".join(dict.fromkeys(lines or [CLEAN])) + "\n"


def _command(result: Result) -> str:
    place = {"file": result.line.path, "line": str(result.line.number)} if result.line else {}
    properties = {**place, "title": one_line(f"mpsprobe {result.workload}", 80)}
    written = ",".join(f"{name}={_escaped(value, IN_PROPERTY)}" for name, value in properties.items())
    return f"::{COMMANDS[result.level]} {written}::{_escaped(result.message, IN_MESSAGE)}"


def _escaped(text: str, escapes: dict[int, str]) -> str:
    return one_line(text, None).translate(escapes)
