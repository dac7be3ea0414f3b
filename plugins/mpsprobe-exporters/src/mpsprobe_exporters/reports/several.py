"""The coverage of several workloads: one row for each, then the operators to look at, with who calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mpsprobe.declarations import SEVERITY
from mpsprobe.doubts import applying, guesses
from mpsprobe_exporters import advisories, answer, fitting, workload_lines
from mpsprobe_exporters.document import Column, Document, Section, table
from mpsprobe_exporters.plain_text import call_site, one_line, plural
from mpsprobe_exporters.reports import coverage, matrix, memory
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, JudgedWorkload, MatrixCell, SeveralReport, Verdict
    from mpsprobe_exporters.document import Cell, Fields

Value = TypeVar("Value")

INTERRUPTED = "Interrupted: the workloads without a row were not judged"
NEWEST = "of several releases, the newest"
LONGEST = 80  # of a message in a row
CSV = ("workload", "torch", *coverage.KEYS)


def _cells(judged: JudgedWorkload) -> Sequence[CoverageReport | MatrixCell]:
    """The releases that a workload was judged on, the oldest first."""
    if judged.report is None:
        return []
    return [judged.report] if judged.report.kind == "coverage" else judged.report.releases


def _newest(judged: JudgedWorkload, of: Callable[[CoverageReport | MatrixCell], Value]) -> Value | None:
    cells = _cells(judged)
    return of(cells[-1]) if cells else None


def _counted(judged: JudgedWorkload, verdict: Verdict) -> int | None:
    count = _newest(judged, lambda cell: cell.summary.operators_by_verdict.get(verdict, 0))
    return count if verdict == "native" else count or None


# Of one release a column for each verdict; of several releases the first without a finding instead.
FIELDS: Fields[None, JudgedWorkload] = (
    (Column("workload", "name"), lambda _, judged: judged.name),
    (Column("release", rank=2), lambda _, judged: _releases(judged)),
    (
        Column("operators", "number", about=NEWEST, rank=1),
        lambda _, judged: _newest(judged, lambda cell: cell.summary.operators),
    ),
    *(
        (Column(verdict, "number", about=NEWEST), lambda _, judged, verdict=verdict: _counted(judged, verdict))
        for verdict in ("native", *answer.FINDINGS)
    ),
    (
        Column("wrong", "number", about="known wrong results"),
        lambda _, judged: len(applying(judged.report)) or None if judged.report else None,
    ),
    (Column("peak", "bytes", about=f"of memory; {NEWEST}", rank=4), lambda _, judged: _memory(judged, "peak_bytes")),
    (
        Column("asked of Metal", "bytes", about=f"by the allocator; {NEWEST}", rank=5),
        lambda _, judged: _memory(judged, "reserved_bytes"),
    ),
    (Column("native since", rank=3), lambda _, judged: _since(judged)),
    (Column("note"), lambda _, judged: why(judged)),
)
ERRORS: Fields[None, JudgedWorkload] = (
    (Column("workload", "name"), lambda _, judged: judged.name),
    (Column("error"), lambda _, judged: _cause(judged)),
    (Column("do", "advice", where="more"), lambda _, judged: judged.hint),
)


class Wanted(NamedTuple):
    """An operator under one verdict on one release that a workload calls."""

    operator: str
    verdict: Verdict
    release: str
    workload: str
    calls: int = 0
    why: str | None = None
    advice: str | None = None


# Of all workloads that call the same.
OPERATORS: Fields[None, list[Wanted]] = (
    (Column("operator", "name"), lambda _, calls: calls[0].operator),
    (Column("verdict", "verdict"), lambda _, calls: calls[0].verdict),
    (Column("release"), lambda _, calls: calls[0].release),
    (Column("workloads", "names"), lambda _, calls: tuple(dict.fromkeys(call.workload for call in calls))),
    (Column("calls", "number"), lambda _, calls: sum(call.calls for call in calls) or None),
    (Column("why"), lambda _, calls: next((call.why for call in calls if call.why), calls[-1].why)),
    (Column("do", "advice"), lambda _, calls: next((call.advice for call in calls if call.advice), calls[-1].advice)),
)


def document(report: SeveralReport) -> Document:
    clean = report.complete and bool(report.workloads) and all(map(is_clean, report.workloads))
    errors = [workload for workload in report.workloads if _cause(workload)]
    known = [workload.report.recalled for workload in report.workloads if workload.report and workload.report.recalled]
    origins = ", ".join(dict.fromkeys(map(workload_lines.source, known)))
    recalled = [f"{plural(len(known), 'answer')} of {len(report.workloads)} from {origins}"] if known else []
    return Document(
        title=plural(len(report.workloads), "workload"),
        headline=headline(report),
        tone="good" if clean else "bad",
        alerts=[] if report.complete else [INTERRUPTED],
        lines=[f"Predicted: traced with {workload_lines.made_with(report.environment)}", *recalled],
        sections=[
            Section("Workloads", table(FIELDS, None, report.workloads, "Workloads"), depth="lead"),
            Section("Not judged to the end", table(ERRORS, None, errors, entries=True), depth="lead"),
            Section(
                "What to do",
                table(OPERATORS, None, operators(report), entries=True, most=coverage.MOST),
                depth="lead",
            ),
        ],
    )


def headline(report: SeveralReport) -> str:
    """``12 of 20 workloads have every operator native; 7 have findings; 1 could not be judged``."""
    count = len(report.workloads)
    failed = sum(_cause(workload) is not None for workload in report.workloads)
    good = sum(map(is_clean, report.workloads))
    guessed = sum(
        not (is_clean(workload) or _cause(workload) or _has_findings(workload)) for workload in report.workloads
    )
    rest = count - good - failed - guessed
    if not count:
        return "No workload was judged"
    parts = [f"{number(good)} of {plural(count, 'workload')} {'has' if good == 1 else 'have'} every operator native"]
    parts += [f"{number(rest)} {'has' if rest == 1 else 'have'} findings"] if rest else []
    parts += [f"{number(guessed)} {'rests' if guessed == 1 else 'rest'} on a guess"] if guessed else []
    parts += [f"{number(failed)} could not be judged"] if failed else []
    return "; ".join(parts)


def is_clean(judged: JudgedWorkload) -> bool:
    """Whether a workload was judged to its end, with nothing to do for any of the releases."""
    return not (_cause(judged) or _has_findings(judged) or (judged.report and guesses(judged.report)))


def _has_findings(judged: JudgedWorkload) -> bool:
    report = judged.report
    if report is None:
        return False
    if report.advisories or fitting.is_bad(fitting.each(report)):
        return True
    return bool(answer.findings(report) if report.kind == "coverage" else any(c.findings for c in report.releases))


def _cause(judged: JudgedWorkload) -> str | None:
    return judged.error or (" ".join(answer.failures(judged.report)) or None if judged.report else "there is no report")


def why(judged: JudgedWorkload) -> str | None:
    """What a row has to say in words: that there is no report, that the run stopped and where, what a guess decided."""
    if judged.report is None:
        return "no report"
    if stopped := [cell.failure for cell in _cells(judged) if cell.failure]:
        on = f" on {plural(len(stopped), 'release')}" if judged.report.kind != "coverage" else ""
        at = f" at {call_site(stopped[0].call_site)}" if stopped[0].call_site else ""
        return f"stopped{on}{at}: {one_line(stopped[0].message or stopped[0].error, LONGEST)}"
    return f"guessed at {answer.guessed_at(guesses(judged.report))}" if guesses(judged.report) else None


def operators(report: SeveralReport) -> list[list[Wanted]]:
    """The operators that are not native, the worst verdicts first, then those that most workloads call."""
    groups: dict[tuple[str, ...], list[Wanted]] = {}
    for workload in report.workloads:
        for wanted in _wanted(workload):
            groups.setdefault(wanted[:3], []).append(wanted)
    return sorted(
        groups.values(),
        key=lambda calls: (-SEVERITY[calls[0].verdict], -len({call.workload for call in calls}), calls[0].operator),
    )


def _wanted(judged: JudgedWorkload) -> Iterator[Wanted]:
    report = judged.report
    if report is None:
        return
    if report.kind == "coverage":
        release = one_line(report.target.version)
        for finding in answer.findings(report):
            yield Wanted(
                finding.operator, finding.verdict, release, judged.name, finding.calls, finding.reason, finding.advice
            )
        return
    for operator in matrix.operators(report):
        verdicts = [cell.findings[operator] for cell in report.releases if operator in cell.findings]
        having = [operator in cell.findings for cell in report.releases]
        worst = max(verdicts, key=lambda verdict: SEVERITY[verdict])
        yield Wanted(operator, worst, advisories.ranges(report, having), judged.name)


def rows(report: SeveralReport) -> Iterator[tuple[Cell, ...]]:
    """The rows of a CSV file: those of each workload's coverage, with its name and the release before them."""
    yield CSV
    for workload in report.workloads:
        records: list[tuple[str | None, Mapping[str, Cell]]] = []
        if workload.report is None:
            records = [(None, {"verdict": "failure", "reason": workload.error or ""})]
        elif workload.report.kind == "coverage":
            records = [(workload.report.target.version, record) for record in coverage.records(workload.report)]
        else:
            records = [(cell.target.version, record) for cell in workload.report.releases for record in _records(cell)]
        yield from ((workload.name, release, *map(record.get, CSV[2:])) for release, record in records)


def _records(cell: MatrixCell) -> Iterator[Mapping[str, Cell]]:
    yield from ({"operator": name, "verdict": verdict} for name, verdict in cell.findings.items())
    yield from ({"verdict": "advisory", "reason": known} for known in cell.advisories)
    if cell.memory:
        yield memory.record(cell.memory)
    if cell.failure:
        yield {"verdict": "failure", "reason": cell.failure.message}


def _releases(judged: JudgedWorkload) -> str | None:
    versions = [one_line(cell.target.version) for cell in _cells(judged)]
    return "-".join(versions[:: max(len(versions) - 1, 1)]) or None


def _memory(judged: JudgedWorkload, figure: str) -> int | None:
    return _newest(judged, lambda cell: None if cell.failure else getattr(cell.memory, figure, None))


def _since(judged: JudgedWorkload) -> str | None:
    if judged.report is None:
        return None
    return judged.report.summary.native_since if judged.report.kind == "coverage" else judged.report.native_since
