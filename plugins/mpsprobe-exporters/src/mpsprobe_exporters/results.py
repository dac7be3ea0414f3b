"""What a report finds, one by one, each with its line in the repository: what SARIF and annotations are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from mpsprobe_exporters import advisories, answer, backends
from mpsprobe_exporters.module_names import fold_names
from mpsprobe_exporters.plain_text import call_site, listed, one_line, plural, shortened
from mpsprobe_exporters.repository import Line, Repository

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, MatrixReport, RunFailure, SeveralReport, Verdict

    AnyReport = CoverageReport | MatrixReport | SeveralReport

Level = Literal["error", "warning", "note"]
LEVELS: dict[str, Level] = {
    "missing": "error",
    "unsupported": "error",
    "fallback": "warning",
    "unknown": "note",
    "advisory": "warning",
    "stopped": "error",
    "not-judged": "note",
    "on-the-cpu": "warning",
    "written-for-cuda": "warning",
    "no-report": "error",
}
"""How bad a result is, by the first part of its rule."""
MOST_LINES = 10  # of one finding
MOST_NAMED = 3
LONGEST = 1000


@dataclass(frozen=True, slots=True)
class Result:
    """One thing to see at one line.

    Attributes:
        rule: what it is: a verdict and the kind of its evidence (``missing/registration``), or ``advisory``, ….
        about: the operator, the advisory, ….
        message: a sentence or two.
        workload: the name of what was run.
        line: in the repository; ``None`` where no line of it is known.
        modules: where in the model.
        allowed: whether ``--allow`` named it.
    """

    rule: str
    about: str
    message: str
    workload: str
    line: Line | None = None
    modules: tuple[str, ...] = ()
    allowed: bool = False

    @property
    def level(self) -> Level:
        """``error``: a Mac raises; ``warning``: it is slow or wrong there; ``note``: nobody knows."""
        return LEVELS[self.rule.partition("/")[0]]


def results(report: AnyReport, repository: Repository) -> list[Result]:
    """Everything that a report finds, the worst first: one for each line of the repository that has it."""
    if report.kind == "coverage-several":
        found = [one for each in report.workloads for one in (results(each.report, repository) if each.report else ())]
        found += [
            Result(
                "no-report",
                "",
                one_line(": ".join(filter(None, (each.error, each.hint))), LONGEST) or "no report",
                each.name,
            )
            for each in report.workloads
            if each.error is not None
        ]
    else:
        single = report.kind == "coverage"
        made = _of_release(report) if report.kind == "coverage" else _of_matrix(report)
        named = report.workload.name
        found = [
            each
            for one, sites in made
            for each in _at_lines(replace(one, workload=named), sites, repository, several=not single)
        ]
    order = {"error": 0, "warning": 1, "note": 2}
    return sorted(found, key=lambda one: order[one.level])


def _at_lines(one: Result, sites: Iterable[str], repository: Repository, *, several: bool) -> Iterator[Result]:
    """``one`` at each line of the repository; without any, once, and its message says where the calls are."""
    sites = list(dict.fromkeys(sites))
    own = [line for site in sites if (line := repository.line(site, one.workload)) is not None]
    for line in list(dict.fromkeys(own))[:MOST_LINES]:
        yield replace(one, line=line)
    if not own:
        places = shortened([*map(call_site, sites)], MOST_NAMED)
        places += [f"in {name}" for name in shortened(list(one.modules), 1)] if one.modules and not places else []
        where = f" Called at {listed(places)}." if places else ""
        yield replace(one, message=one_line(one.message + where, LONGEST))


def _of_release(report: CoverageReport) -> Iterator[tuple[Result, Sequence[str]]]:
    on = backends.on_release(report.target, report.target.version)
    for one in answer.findings(report):
        text = [_said(one.operator, one.verdict, report, on), *filter(None, (one.reason, one.advice))]
        rule = f"{one.verdict}/{one.source}" if one.source else one.verdict
        result = _result(rule, one.operator, text, one.modules)
        yield replace(result, allowed=one.operator in report.allowed), one.call_sites
    for known in report.advisories:
        yield (
            _result("advisory", known.id, _advised(known.title, known.workaround, on), known.modules),
            known.call_sites,
        )
    for left in report.not_judged:
        yield _result("not-judged", left.operator, [f"{left.operator} is not judged: {left.reason}"]), left.call_sites
    if report.failure is not None:
        yield _stopped(report.failure, on)
    program = report.program
    for stayed in program.stayed_on_cpu if program else ():
        text = [f"{stayed.module} stayed on the CPU, while MPS was there", 'Move it there with .to("mps")']
        yield _result("on-the-cpu", stayed.module, text), _sites(stayed.call_site)
    for line in program.computed_on_cpu if program else ():
        text = [f"{', '.join(line.operators)} computed on the CPU, while MPS was there"]
        yield _result("on-the-cpu", line.operators[0], text), _sites(line.call_site)
    for hint in program.cuda if program else ():
        text = [f"{hint.what} is written for CUDA, which no Mac has", f"Write {hint.instead}"]
        yield _result("written-for-cuda", hint.what, text), hint.call_sites


def _of_matrix(report: MatrixReport) -> Iterator[tuple[Result, Sequence[str]]]:
    """An operator under each of its verdicts once, with the releases; its lines are those of the newest release."""
    known = {one.operator: one for one in report.operators}
    cells = report.releases
    pairs: dict[tuple[str, Verdict], None] = {}
    for cell in reversed(cells):
        pairs |= dict.fromkeys(pair for pair in cell.findings.items() if pair[1] in answer.FINDINGS)
    for operator, verdict in pairs:
        on = _releases(report, [cell.findings.get(operator) == verdict for cell in cells])
        newest = known.get(operator)
        same = newest is not None and newest.verdict == verdict
        rule = f"{verdict}/{newest.source}" if newest and same and newest.source else verdict
        text = [_said(operator, verdict, report, on), *((newest.advice or "",) if newest and same else ())]
        result = _result(rule, operator, text, newest.modules if newest else ())
        yield replace(result, allowed=operator in report.allowed), newest.call_sites if newest else ()
    for one in report.advisories:
        on = _releases(report, [one.id in cell.advisories for cell in cells])
        yield _result("advisory", one.id, _advised(one.title, one.workaround, on), one.modules), one.call_sites
    for left in report.not_judged:
        yield _result("not-judged", left.operator, [f"{left.operator} is not judged: {left.reason}"]), left.call_sites
    failures = [cell.failure for cell in cells if cell.failure is not None]
    for index, failure in enumerate(failures):
        if failure not in failures[:index]:
            yield _stopped(failure, _releases(report, [cell.failure == failure for cell in cells]))


def _result(rule: str, about: str, text: Sequence[str], modules: Sequence[str] = ()) -> Result:
    sentences = (one_line(one, LONGEST).rstrip(".") for one in text)
    message = "".join(f"{answer.sentence(one) if number else one}. " for number, one in enumerate(sentences) if one)
    return Result(rule, one_line(about), one_line(message, LONGEST), "", modules=tuple(fold_names(list(modules))))


def _said(operator: str, verdict: str, report: CoverageReport | MatrixReport, on: str) -> str:
    """``aten::linalg_eig has no MPS kernel on torch 2.13.0``."""
    return f"{operator} {answer.SAYS[verdict][0].format(backends.label(backends.target(report)))} on {on}"


def _stopped(failure: RunFailure, on: str) -> tuple[Result, Sequence[str]]:
    text = [f"The run stopped in {failure.phase} on {on}: {failure.error}: {failure.message}"]
    return _result("stopped", failure.error, text), _sites(failure.call_site)


def _advised(title: str, workaround: str, on: str) -> list[str]:
    return [f"Known wrong result on {on}: {title}", workaround]


def _sites(site: str | None) -> Sequence[str]:
    return [site] if site else []


def _releases(report: MatrixReport, having: Sequence[bool]) -> str:
    """``torch 2.6.0-2.8.0 (4 of 9 releases)``."""
    ranges = advisories.ranges(report, having)
    count = sum(having)
    return f"torch {ranges}" + (f" ({count} of {plural(len(having), 'release')})" if count > 1 else "")
