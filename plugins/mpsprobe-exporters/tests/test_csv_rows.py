"""Rows that a spreadsheet and a parser read as they were meant."""

from __future__ import annotations

import csv
import io

from example_reports import coverage, failed, finding, mixed
from hostile import hostile_coverage, hostile_matrix, on_any_text

from mpsprobe.schemas.report import Report
from mpsprobe_exporters.csv_rows import CsvExporter

# What those who read the files rely on; a column may be added at the end.
COLUMNS = (
    *("operator", "verdict", "calls", "phases", "dtypes", "shapes", "modules", "call_sites", "input_bytes"),
    *("output_bytes", "native_since", "reason", "advice"),
)


def rows_of(report: Report) -> list[list[str]]:
    text = CsvExporter().render(report)
    assert text.count("\n") == text.count("\r\n")
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def test_one_row_for_each_operator_and_everything_else() -> None:
    for report in (mixed(), failed(), coverage("2.15.0", [])):
        header, *rows = rows_of(report)
        assert tuple(header) == COLUMNS
        others = len(report.not_judged) + len(report.data_dependence) + (report.failure is not None)
        assert len(rows) == len(report.operators) + others
        assert {len(row) for row in rows} <= {len(COLUMNS)}


def test_composite_operators_are_listed_too() -> None:
    rows = rows_of(coverage("2.6.0", [finding("aten::reshape", "composite"), finding("aten::add.Tensor")]))
    assert [row[:2] for row in rows[1:]] == [["aten::add.Tensor", "native"], ["aten::reshape", "composite"]]


@on_any_text
def test_no_cell_is_a_formula_or_breaks_its_row(text: str) -> None:
    for report in (hostile_coverage(text), hostile_matrix(text)):
        header, *rows = rows_of(report)
        for row in [header, *rows]:
            assert len(row) == len(header)
            assert not any(
                cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")) for cell in row
            )
