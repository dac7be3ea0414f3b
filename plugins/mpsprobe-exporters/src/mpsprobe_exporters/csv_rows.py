"""Comma-separated values as RFC 4180 has them: one row for each operator, CRLF after each row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mpsprobe_exporters import comparison_csv, profile_rows
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.reports import coverage, matrix
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport
    from mpsprobe.schemas.report import Report

# What a spreadsheet takes for the start of a formula.
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are the full-width ones


class CsvExporter:
    """The columns of coverage that have a key, those of a profile or a comparison; lists are joined by ``; ``.

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
            rows = _coverage_rows(read) if read.kind == "coverage" else matrix.rows(read)
        writer.writerows([_cell(value, read.kind) for value in row] for row in rows)
        return stream.getvalue()


def _coverage_rows(report: CoverageReport) -> Iterator[tuple[object, ...]]:
    keys = tuple(column.key for column in coverage.COLUMNS if column.key)
    yield keys
    yield from (tuple(map(record.get, keys)) for record in coverage.records(report))


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
