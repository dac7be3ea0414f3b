"""What ``--fail-on`` and ``--allow`` make of a report: the exit code, and the lines that say why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase

import click

from mpsprobe.doubts import applying, exceeds, guesses, loops, unwatched
from mpsprobe.errors import RunFailed, WorkloadError
from mpsprobe.schemas import SEVERITY, CoverageReport, MatrixCell, MatrixReport, MemoryFit, Report, SeveralReport
from mpsprobe.streams import because
from mpsprobe.suggestions import printable
from mpsprobe_coverage.commands.options import ADVISORY, ASSUMED, MEMORY
from mpsprobe_exporters.units import byte_size

UNKNOWN = "unknown"
MOST_NAMED = 3  # workloads in an error, lines of the source


def exit_code(
    report: Report, fail_on: Collection[str], allow: Collection[str] = (), *, name: str, written: str | None
) -> int:
    """0 clean, 1 for what ``fail_on`` names (verdicts, advisories, memory); ``name`` is the exporter's.

    Standard error says why it is 1. A workload that did not run to its end raises, with the cause where the report was
    ``written`` to a file or folder.
    """
    if isinstance(report, SeveralReport):
        if not report.complete:
            raise KeyboardInterrupt
        failed = [
            row.name
            for row in report.workloads
            if row.report is None or any(cell.failure is not None for cell in _cells(row.report))
        ]
        if failed:
            some = ", ".join(map(printable, failed[:MOST_NAMED])) + (", …" if len(failed) > MOST_NAMED else "")
            count = f"{len(failed)} of {len(report.workloads)} workloads"
            raise WorkloadError(f"{count} could not be judged to their end: {some}", "The report says why.")
        judged = [(printable(row.name), row.report) for row in report.workloads if row.report]
        wrong = [f"{name}: {line}" for name, judgement in judged for line in broken(judgement, fail_on, allow)]
    else:
        wrong = broken(report, fail_on, allow, shown=written is None and name == "table")
    if wrong:
        click.echo(because(wrong), err=True)
    return int(bool(wrong))


def broken(report: Report, fail_on: Collection[str], allow: Collection[str], *, shown: bool = False) -> list[str]:
    """A line for each operator with a verdict of ``fail_on`` that ``allow`` does not name, and for each advisory."""
    lines: list[str] = []
    for cell in _cells(report):
        if cell.failure is not None:
            raise RunFailed(cell.failure, shown)
        lines += _operators(cell, fail_on, allow)
        fit = cell.fit if isinstance(cell, MatrixCell) else cell.memory and cell.memory.fit
        if fit and MEMORY in fail_on and (reason := _too_large(fit)):
            lines.append(f"{reason} ({fit.machine}, torch {cell.target.torch})")
        known = cell.advisories if isinstance(cell, MatrixCell) else applying(cell)
        advised = [advisory if isinstance(advisory, str) else f"{advisory.id} ({advisory.title})" for advisory in known]
        lines += [f"known wrong result: {advisory}" for advisory in advised if ADVISORY in fail_on]
    return [*dict.fromkeys(lines), *_unproven(report, fail_on, allow)]


def _too_large(fit: MemoryFit) -> str:
    if fit.answer == "raises":
        return fit.low.message or "PyTorch raises for want of memory"
    taken = max(fit.low.reserved_bytes, fit.high.reserved_bytes)
    more = byte_size(taken - fit.memory_bytes)
    return f"it needs {byte_size(taken)} of memory, {more} more than the Mac has" if exceeds(fit) else ""


def _unproven(report: Report, fail_on: Collection[str], allow: Collection[str]) -> Iterator[str]:
    """What was guessed, and what nobody watched: both are unknown, whatever the rest is."""
    if not isinstance(report, CoverageReport | MatrixReport) or not {UNKNOWN, ASSUMED}.intersection(fail_on):
        return
    for guess in guesses(report):
        if not is_allowed(guess.operator, allow):
            where = f" ({', '.join(guess.call_sites[:MOST_NAMED])})" if guess.call_sites else ""
            yield f"values were guessed{where}: {guess.assumed}"
    for loop in loops(report) if ASSUMED in fail_on else ():
        if not is_allowed(loop.operator, allow):
            yield f"values say how often a loop runs ({', '.join(loop.call_sites[:MOST_NAMED])}): {loop.assumed}"
    if UNKNOWN in fail_on and (count := unwatched(report)):
        yield f"processes that the program started and that are not in the report: {count}"


def _cells(report: Report | None) -> Sequence[CoverageReport | MatrixCell]:
    if isinstance(report, MatrixReport):
        return report.releases
    return [report] if isinstance(report, CoverageReport) else []


def with_allowed(report: Report, allow: Collection[str]) -> Report:
    """``report`` with the operators of its findings that ``allow`` names, for who shows it."""
    if isinstance(report, SeveralReport):
        rows = [
            row.model_copy(update={"report": with_allowed(row.report, allow)}) if row.report else row for row in report
        ]
        return report.model_copy(update={"workloads": rows})
    if isinstance(report, CoverageReport):
        operators = [finding.operator for finding in report.operators if SEVERITY[finding.verdict]]
    elif isinstance(report, MatrixReport):
        operators = [operator for cell in report.releases for operator in cell.findings]
    else:
        return report
    return report.model_copy(
        update={"allowed": [operator for operator in dict.fromkeys(operators) if is_allowed(operator, allow)]}
    )


def _operators(cell: CoverageReport | MatrixCell, fail_on: Collection[str], allow: Collection[str]) -> Iterator[str]:
    release = f"{cell.target.software} {cell.target.version}"
    if isinstance(cell, MatrixCell):
        for operator, verdict in cell.findings.items():
            if verdict in fail_on and not is_allowed(operator, allow):
                yield f"{operator} is {verdict} on {release}"
        return
    for finding in cell.operators:
        if finding.verdict in fail_on and not is_allowed(finding.operator, allow):
            where = f" ({finding.call_sites[0]})" if finding.call_sites else ""
            advice = f": {finding.advice}" if finding.advice else ""
            only = f", only if {finding.only_if}" if finding.only_if else ""
            yield f"{finding.operator} is {finding.verdict} on {release}{where}{only}{advice}"


def is_allowed(operator: str, allow: Collection[str]) -> bool:
    """Whether ``allow`` names ``operator``: ``aten::linalg_qr.out``, ``linalg_qr.out``, ``linalg_qr``, ``linalg_*``."""
    whole = operator.partition(".")[0]
    names = (operator, whole, operator.partition("::")[2], whole.partition("::")[2])
    return any(fnmatchcase(name, pattern) for pattern in allow for name in names)
