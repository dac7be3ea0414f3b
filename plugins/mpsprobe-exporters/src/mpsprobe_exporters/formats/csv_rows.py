"""Comma-separated values as RFC 4180 has them: one row for each operator, CRLF after each row."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mpsprobe_exporters.document import records
from mpsprobe_exporters.formats import profile_rows
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.reports import (
    checkpoint,
    coverage,
    largest_size,
    matrix,
    memory,
    precision,
    ranking,
    several,
    upgrade,
    verification,
)  # fmt: skip
from mpsprobe_exporters.reports.comparison import failure_lines
from mpsprobe_exporters.reports.configurations import KEY
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas import ComparisonReport
    from mpsprobe.schemas.report import Report

Rows = Iterable[Sequence[object]]
# What a spreadsheet takes for the start of a formula.
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are the full-width ones

MEASURED = ("name", "unit", "old", "new", "ratio", "low", "high", "test", "samples", "old_count", "new_count")
QUANTITY = (*MEASURED, "p_value", "adjusted_p_value", "difference", "regression", "note")
COMPARED = (*KEY, "release", "kind", *QUANTITY)


class CsvExporter:
    """What is no operator stands after the operators, under a verdict of its own; lists are joined by ``; ``."""

    def render(self, report: Report) -> str:
        read = supported_report(report, "csv")
        stream = io.StringIO(newline="")
        rows = ROWS[read.kind](read)
        csv.writer(stream, lineterminator="\r\n").writerows([_cell(value, read.kind) for value in row] for row in rows)
        return stream.getvalue()


def _table(columns: Sequence[str], records: Iterable[Mapping[str, object]]) -> Rows:
    yield columns
    yield from (tuple(map(record.get, columns)) for record in records)


def _compared(report: ComparisonReport) -> Iterator[dict[str, Any]]:
    """What was compared. ``release`` is of a matrix; ``difference`` of verdicts is ``worse``, …"""
    for cell in report.cells:
        key = {name: getattr(cell, name) for name in KEY}
        for quantity in cell.quantities:
            yield {**key, "kind": quantity.quantity, **{name: getattr(quantity, name) for name in QUANTITY}}
        for operator in cell.operators:
            difference = "not tested" if operator.presence == "both" else operator.presence
            shared = {**key, "kind": "operator", "name": operator.operator, "difference": difference}
            calls = {"unit": "calls", "old": operator.old_calls, "new": operator.new_calls}
            yield {**shared, **calls, "note": "in one step"}
            spent = {"unit": "ns", "old": operator.old_ns, "new": operator.new_ns, "ratio": operator.ratio}
            yield {**shared, **spent, "note": f"self time in one step, {operator.clock}"}
        for left in cell.fallbacks:
            shared = {**key, "kind": "fallback", "name": left.operator, "difference": left.presence}
            yield {**shared, "old": left.old_verdict, "new": left.new_verdict, "regression": left.regression}
            for unit in ("calls", "ns", "bytes"):
                old, new = getattr(left, f"old_{unit}"), getattr(left, f"new_{unit}")
                if old is not None or new is not None:
                    yield {**shared, "unit": unit, "old": old, "new": new}
        failures = (cell.old_failure, cell.new_failure)
        if any(failures):
            old, new = ("" if failure is None else f"{failure.error}: {failure.message}" for failure in failures)
            yield {**key, "kind": "failure", "old": old, "new": new, "regression": cell.regression}
    for lonely in report.unpaired:
        key = {name: getattr(lonely, name) for name in KEY}
        yield {**key, "kind": "unpaired", "difference": lonely.presence}
    for verdict in report.verdicts:
        fields = {name: getattr(verdict, name) for name in ("release", "old", "new", "regression")}
        yield {**fields, "kind": "verdict", "name": verdict.operator, "difference": verdict.change}
    for known in report.advisories:
        fields = {"release": known.release, "regression": known.regression, "note": known.title}
        yield {**fields, "kind": "advisory", "name": known.id, "difference": known.presence}
    for figure in memory.changes(report):
        change = "larger" if figure.new > figure.old else "smaller"
        yield {"kind": "memory", "unit": "bytes", "difference": change, **figure._asdict()}
    for failure, line in zip(report.failures, failure_lines(report), strict=False):
        yield {"kind": "failure", "release": failure.release, "regression": failure.regression, "note": line}
    for condition in report.conditions:
        yield {"kind": "condition", "name": condition.what, "old": condition.old, "new": condition.new}


ROWS: Mapping[str, Callable[[Any], Rows]] = {
    "coverage": lambda report: _table(coverage.KEYS, coverage.records(report)),
    "coverage-matrix": matrix.rows,
    "coverage-several": several.rows,
    "profile": lambda report: _table(profile_rows.COLUMNS, profile_rows.rows(report)),
    "comparison": lambda report: _table(COMPARED, _compared(report)),
    "checkpoint": lambda report: records(checkpoint.FIELDS, report, report.dtypes),
    "fit": lambda report: records(largest_size.FIELDS, report, report.rows),
    "upgrade": upgrade.rows,
    "verification": lambda report: records(verification.FIELDS, None, report.wrong),
    "precision": lambda report: records(precision.FIELDS, None, report.modules),
    "ranking": lambda report: records(ranking.FIELDS, None, (*report.operators, *report.fallbacks)),
}
"""The header, then the rows."""


def _cell(value: object, kind: str) -> object:
    """Numbers as they are, of a profile without an empty fraction; text on one line, never the start of a formula."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if kind == "profile" and isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, Mapping):
        value = [f"{name}={count}" for name, count in value.items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = "; ".join(map(str, value))
    if not isinstance(value, str):
        return value
    text = one_line(value, None)
    return f"'{text}" if text.startswith(FORMULA) else text
