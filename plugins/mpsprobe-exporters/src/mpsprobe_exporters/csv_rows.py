"""Comma-separated values as RFC 4180 has them: one row for each operator, CRLF after each row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mpsprobe_exporters import answer, comparison_csv, profile_rows, program_answer, release_grid
from mpsprobe_exporters.module_names import fold_names
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas import AdvisoryMatch, CoverageReport, MatrixReport, OperatorFinding, Target
    from mpsprobe.schemas.report import Report

COLUMNS = (
    "operator",
    "verdict",
    "calls",
    "phases",
    "dtypes",
    "shapes",
    "modules",
    "call_sites",
    "input_bytes",
    "output_bytes",
    "native_since",
    "reason",
    "advice",
)
# What a spreadsheet takes for the start of a formula.
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are the full-width ones


class CsvExporter:
    """The columns of ``COLUMNS``; lists are joined by ``; ``.

    What is no operator stands after the operators, under a verdict of its own: ``not_judged``,
    ``data_dependence``, ``composed_otherwise``, ``advisory`` (a known wrong result) and ``failure``; of a program
    ``stayed_on_cpu``, ``computed_on_cpu`` and ``written_for_cuda``. A matrix has one column for each release instead.
    """

    def render(self, report: Report) -> str:
        """The rows, the header first.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        read = supported_report(report, "csv")
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator="\r\n")
        if read.kind == "profile":
            rows: Iterable[tuple[object, ...]] = [profile_rows.COLUMNS, *profile_rows.rows(read)]
        elif read.kind == "comparison":
            rows = comparison_csv.rows(read)
        else:
            rows = _coverage_rows(read) if read.kind == "coverage" else _matrix_rows(read)
        writer.writerows([_cell(value, read.kind) for value in row] for row in rows)
        return stream.getvalue()


def _coverage_rows(report: CoverageReport) -> Iterable[tuple[object, ...]]:
    yield COLUMNS
    composite = [one for one in report.operators if one.verdict == "composite"]
    for one in [*answer.findings(report), *answer.natives(report), *composite]:
        yield _operator_row(one, report.target)
    for left in report.not_judged:
        yield _row(left.operator, "not_judged", left.calls, left.call_sites, left.reason)
    for read in report.data_dependence:
        yield _row(read.operator, "data_dependence", read.calls, read.call_sites, f"assumed {read.assumed}")
    for name, calls, text in answer.compositions(report):
        yield _row(name, "composed_otherwise", calls, [], text)
    for advisory in report.advisories:
        yield _advisory_row(advisory)
    program = report.program
    for stayed in program.stayed_on_cpu if program else ():
        yield _row(stayed.module, "stayed_on_cpu", stayed.calls, [stayed.call_site or ""], program_answer.STAYED)
    for line in program.computed_on_cpu if program else ():
        operators = ", ".join(line.operators)
        yield _row(operators, "computed_on_cpu", line.calls, [line.call_site or ""], program_answer.COMPUTED)
    for hint in program.cuda if program else ():
        yield _row(hint.what, "written_for_cuda", hint.calls, hint.call_sites, f"write {hint.instead}")
    if report.failure:
        yield _row("", "failure", 1, [], answer.failure_sentence(report.failure))


def _operator_row(one: OperatorFinding, judged: Target) -> tuple[object, ...]:
    return (
        one.operator,
        one.verdict,
        one.calls,
        _joined(f"{phase}={calls}" for phase, calls in one.phases.items()),
        _joined(one.dtypes),
        _joined(one.shapes),
        _joined(fold_names(one.modules)),
        _joined(one.call_sites),
        one.input_bytes,
        one.output_bytes,
        one.native_since or "",
        one.reason or "",
        answer.advice(one) if one.verdict in answer.FINDINGS else "",
    )


def _advisory_row(one: AdvisoryMatch) -> tuple[object, ...]:
    phases, places = _joined(f"{phase}={calls}" for phase, calls in one.phases.items()), _joined(one.call_sites)
    reason = f"{one.id}: {one.title}. When: {one.condition}. {one.symptom}"
    row = (_joined(one.operators), "advisory", one.calls, phases, "", "", _joined(fold_names(one.modules)), places)
    return (*row, "", "", "", reason, one.workaround)


def _row(operator: str, verdict: str, calls: int, call_sites: list[str], reason: str) -> tuple[object, ...]:
    return (operator, verdict, calls, "", "", "", "", _joined(call_sites), "", "", "", reason, "")


def _matrix_rows(report: MatrixReport) -> Iterable[tuple[object, ...]]:
    """Rows about the whole workload, named in parentheses, then the operators; empty is native or not called."""
    cells = report.releases
    yield ("operator", *(cell.target.torch for cell in cells))
    yield ("(operators)", *(cell.summary.operators for cell in cells))
    yield ("(native)", *(cell.summary.operators_by_verdict.get("native", 0) for cell in cells))
    yield ("(failure)", *(answer.failure_sentence(cell.failure) if cell.failure else "" for cell in cells))
    if report.advisories:
        yield ("(advisories)", *(_joined(cell.advisories) for cell in cells))
    for operator in release_grid.operators(report):
        yield (operator, *(cell.findings.get(operator, "") for cell in cells))


def _joined(items: Iterable[str]) -> str:
    return "; ".join(items)


def _cell(value: object, kind: str) -> object:
    """Numbers as they are, of a profile without an empty fraction; text on one line, never the start of a formula."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if kind == "profile" and isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if not isinstance(value, str):
        return value
    text = one_line(value, None)
    return f"'{text}" if text.startswith(FORMULA) else text
