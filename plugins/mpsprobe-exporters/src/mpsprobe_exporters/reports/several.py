"""The coverage of several workloads: one row for each, then the operators to look at, with who calls them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mpsprobe.declarations import SEVERITY
from mpsprobe.doubts import guesses
from mpsprobe_exporters import advisories, answer, backends, fitting, workload_lines
from mpsprobe_exporters.document import Column, Document, Section, table
from mpsprobe_exporters.plain_text import call_site, one_line, plural
from mpsprobe_exporters.reports import coverage, matrix, memory
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from mpsprobe.schemas import (
        CoverageReport,
        CoverageSummary,
        JudgedWorkload,
        MatrixCell,
        MatrixReport,
        SeveralReport,
    )
    from mpsprobe_exporters.document import Cell, Fields

INTERRUPTED = "Interrupted: the workloads without a row were not judged"
STOPPED = "stopped"
UNJUDGED = "Not judged to the end"
NEWEST = "of several releases, the newest"
CSV = ("workload", "torch", *(column.key for column in coverage.COLUMNS if column.key))


def _count(verdict: str) -> Column:
    return Column(verdict, "number", about=NEWEST)


# Of one release a column for each verdict; of several releases the first without a finding instead.
FIELDS: Fields[None, JudgedWorkload] = (
    (Column("workload", "name"), lambda _, one: one.name),
    (Column("release", rank=2), lambda _, one: _release(one.report)),
    (Column("operators", "number", about=NEWEST, rank=1), lambda _, one: _operators(one)),
    *(
        (_count(verdict), lambda _, one, verdict=verdict: _counted(one, verdict))
        for verdict in ("native", *answer.FINDINGS)
    ),
    (
        Column("wrong", "number", about="known wrong results"),
        lambda _, one: _nonzero(len(one.report.advisories) if one.report else 0),
    ),
    (Column("peak", "bytes", about=f"of memory; {NEWEST}", rank=4), lambda _, one: _memory(one, "peak_bytes")),
    (
        Column("asked of Metal", "bytes", about=f"by the allocator; {NEWEST}", rank=5),
        lambda _, one: _memory(one, "reserved_bytes"),
    ),
    (Column("native since", rank=3), lambda _, one: _since(one.report)),
    (Column("note"), lambda _, one: why(one)),
)


def document(report: SeveralReport) -> Document:
    """The coverage of several workloads."""
    clean = report.complete and bool(report.workloads) and all(map(is_clean, report.workloads))
    errors = [one for one in report.workloads if _cause(one)]
    return Document(
        title=plural(len(report.workloads), "workload"),
        headline=headline(report),
        tone="good" if clean else "bad",
        alerts=[] if report.complete else [INTERRUPTED],
        lines=[f"Predicted: traced with {workload_lines.made_with(report.environment)}", *_recalled(report)],
        sections=[
            Section("Workloads", table(FIELDS, None, report.workloads, "Workloads")),
            Section(UNJUDGED, table(ERRORS, None, errors, entries=True)),
            Section("What to do", table(OPERATORS, None, operators(report), entries=True, most=coverage.MOST)),
        ],
    )


def _recalled(report: SeveralReport) -> list[str]:
    """How many of the workloads were known, in a line; nothing where none was."""
    known = [one.report.recalled for one in report.workloads if one.report and one.report.recalled]
    sources = ", ".join(dict.fromkeys(map(workload_lines.source, known)))
    return [f"{plural(len(known), 'answer')} of {len(report.workloads)} from {sources}"] if known else []


def headline(report: SeveralReport) -> str:
    """``12 of 20 workloads have every operator native; 7 have findings; 1 could not be judged``."""
    count = len(report.workloads)
    failed = sum(_cause(one) is not None for one in report.workloads)
    good = sum(map(is_clean, report.workloads))
    guessed = sum(not (is_clean(one) or _cause(one) or _has_findings(one)) for one in report.workloads)
    rest = count - good - failed - guessed
    if not count:
        return "No workload was judged"
    parts = [f"{number(good)} of {plural(count, 'workload')} {'has' if good == 1 else 'have'} every operator native"]
    parts += [f"{number(rest)} {'has' if rest == 1 else 'have'} findings"] if rest else []
    parts += [f"{number(guessed)} {'rests' if guessed == 1 else 'rest'} on a guess"] if guessed else []
    parts += [f"{number(failed)} could not be judged"] if failed else []
    return "; ".join(parts)


def is_clean(one: JudgedWorkload) -> bool:
    """Whether a workload was judged to its end, with nothing to do for any of the releases."""
    return not (_cause(one) or _has_findings(one) or (one.report and guesses(one.report)))


def _has_findings(one: JudgedWorkload) -> bool:
    if one.report is None:
        return False
    if one.report.kind == "coverage":
        return bool(answer.findings(one.report) or one.report.advisories or fitting.is_bad(fitting.each(one.report)))
    cells = one.report.releases
    return bool(
        one.report.advisories or fitting.is_bad(fitting.each(one.report)) or any(cell.findings for cell in cells)
    )


def _cause(one: JudgedWorkload) -> str | None:
    """Why a workload was not judged to its end."""
    return one.error or (" ".join(answer.failures(one.report)) or None if one.report else "there is no report")


def why(one: JudgedWorkload) -> str | None:
    """What a row has to say in words: that there is no report, that the run stopped and where, what a guess decided."""
    if one.report is None:
        return "no report"
    cells = [one.report] if one.report.kind == "coverage" else one.report.releases
    if stopped := [cell.failure for cell in cells if cell.failure]:
        on = f" on {plural(len(stopped), 'release')}" if one.report.kind != "coverage" else ""
        at = f" at {call_site(stopped[0].call_site)}" if stopped[0].call_site else ""
        return f"{STOPPED}{on}{at}"
    return f"guessed at {answer.guessed_at(guesses(one.report))}" if guesses(one.report) else None


ERRORS: Fields[None, JudgedWorkload] = (
    (Column("workload", "name"), lambda _, one: one.name),
    (Column("error"), lambda _, one: _cause(one)),
    (Column("do", "advice", where="more"), lambda _, one: one.hint),
)


class Wanted:
    """An operator under one verdict on one release, over all workloads that call it."""

    def __init__(self, operator: str, verdict: str, release: str) -> None:
        self.operator, self.verdict, self.release = operator, verdict, release
        self.workloads: dict[str, None] = {}
        self.calls = 0
        self.why: str | None = None
        self.advice: str | None = None


OPERATORS: Fields[None, Wanted] = (
    (Column("operator", "name"), lambda _, one: one.operator),
    (Column("verdict", "verdict"), lambda _, one: one.verdict),
    (Column("release"), lambda _, one: one.release),
    (Column("workloads", "names"), lambda _, one: tuple(one.workloads)),
    (Column("calls", "number"), lambda _, one: one.calls or None),
    (Column("why"), lambda _, one: one.why),
    (Column("do", "advice"), lambda _, one: one.advice),
)


def operators(report: SeveralReport) -> list[Wanted]:
    """The operators that are not native, the worst verdicts first, then those that most workloads call."""
    found: dict[tuple[str, str, str], Wanted] = {}
    for one in report.workloads:
        for operator, verdict, release, calls, reason, advice in _findings(one.report):
            wanted = found.setdefault((operator, verdict, release), Wanted(operator, verdict, release))
            wanted.workloads[one.name] = None
            wanted.calls += calls
            wanted.why, wanted.advice = wanted.why or reason, wanted.advice or advice
    return sorted(found.values(), key=lambda one: (-SEVERITY[one.verdict], -len(one.workloads), one.operator))  # type: ignore[index]


def _findings(
    report: CoverageReport | MatrixReport | None,
) -> Iterator[tuple[str, str, str, int, str | None, str | None]]:
    if report is None:
        return
    if report.kind == "coverage":
        for one in answer.findings(report):
            yield one.operator, one.verdict, one_line(report.target.version), one.calls, one.reason, one.advice
        return
    for operator in matrix.operators(report):
        verdicts = {
            cell.target.version: cell.findings[operator] for cell in report.releases if operator in cell.findings
        }
        worst = max(verdicts.values(), key=lambda one: SEVERITY[one])
        yield (
            operator,
            worst,
            advisories.ranges(report, [operator in cell.findings for cell in report.releases]),
            0,
            None,
            None,
        )


def rows(report: SeveralReport) -> Iterator[tuple[Cell, ...]]:
    """The rows of a CSV file: those of each workload's coverage, with its name and the release before them."""
    yield CSV
    keys = CSV[2:]
    for one in report.workloads:
        if one.report is None:
            yield (one.name, None, *({"verdict": "failure", "reason": one.error or ""}.get(key) for key in keys))
        elif one.report.kind == "coverage":
            torch = one.report.target.version
            yield from ((one.name, torch, *map(record.get, keys)) for record in coverage.records(one.report))
        else:
            for cell in one.report.releases:
                found: list[dict[str, Cell]] = [
                    {"operator": name, "verdict": verdict} for name, verdict in cell.findings.items()
                ]
                found += [{"verdict": "advisory", "reason": known} for known in cell.advisories]
                found += [memory.record(cell.memory)] if cell.memory else []
                found += [{"verdict": "failure", "reason": cell.failure.message}] if cell.failure else []
                yield from ((one.name, cell.target.version, *map(record.get, keys)) for record in found)


def _release(report: CoverageReport | MatrixReport | None) -> str | None:
    judged = backends.target(report) if report is not None else None
    if report is None or judged is None:
        return None
    newest = one_line(judged.version)
    if report.kind == "coverage" or len(report.releases) == 1:
        return newest
    return f"{one_line(report.releases[0].target.version)}-{newest}"


def _newest(one: JudgedWorkload) -> CoverageSummary | None:
    """The counts of a workload: of several releases, those of the newest."""
    if one.report is None:
        return None
    if one.report.kind == "coverage":
        return one.report.summary
    return one.report.releases[-1].summary if one.report.releases else None


def _memory(one: JudgedWorkload, figure: str) -> int | None:
    cells: Sequence[CoverageReport | MatrixCell] = ()
    if one.report is not None:
        cells = [one.report] if one.report.kind == "coverage" else one.report.releases
    return getattr(cells[-1].memory, figure, None) if cells and not cells[-1].failure else None


def _operators(one: JudgedWorkload) -> int | None:
    summary = _newest(one)
    return summary.operators if summary else None


def _counted(one: JudgedWorkload, verdict: str) -> int | None:
    summary = _newest(one)
    count = summary.operators_by_verdict.get(verdict, 0) if summary else None  # type: ignore[call-overload]
    return count if verdict == "native" or count is None else _nonzero(count)


def _nonzero(count: int) -> int | None:
    return count or None


def _since(report: CoverageReport | MatrixReport | None) -> str | None:
    if report is None:
        return None
    return report.summary.native_since if report.kind == "coverage" else report.native_since
