"""Rows that a spreadsheet and a parser read as they were meant."""

from __future__ import annotations

import csv
import io

from example_reports import coverage, failed, finding, matrix, mixed
from hostile import HOSTILE, hostile_coverage, hostile_matrix, texts
from hypothesis import given, settings

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


def test_findings_come_first_and_keep_their_numbers() -> None:
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in rows_of(mixed())[1:]]
    verdicts = [row["verdict"] for row in rows]
    assert verdicts[:6] == ["unsupported", "missing", "missing", "fallback", "unknown", "native"]
    first = rows[1]
    assert (first["calls"], first["input_bytes"], first["phases"]) == ("4", "131072", "forward=2; backward=2")
    assert first["native_since"] == "2.9.0" and first["call_sites"].startswith("/home/user/project/orthogonal.py:31")


def test_composite_operators_are_listed_too() -> None:
    rows = rows_of(coverage("2.6.0", [finding("aten::reshape", "composite"), finding("aten::add.Tensor")]))
    assert [row[:2] for row in rows[1:]] == [["aten::add.Tensor", "native"], ["aten::reshape", "composite"]]


def test_matrix_has_a_column_for_each_release() -> None:
    header, *rows = rows_of(matrix())
    assert header == ["operator", *(cell.target.torch for cell in matrix().releases)]
    table = {row[0]: row[1:] for row in rows}
    assert table["(native)"][-1] == "8" and table["(failure)"][0].startswith("The run stopped")
    assert table["aten::linalg_qr.out"] == ["missing"] * 7 + [""] * 4


def test_no_known_text_is_a_formula_or_breaks_its_row() -> None:
    for text in HOSTILE:
        check_cells(text)


@settings(max_examples=20, deadline=None)
@given(texts)
def test_no_cell_is_a_formula_or_breaks_its_row(text: str) -> None:
    check_cells(text)


def check_cells(text: str) -> None:
    for report in (hostile_coverage(text), hostile_matrix(text)):
        header, *rows = rows_of(report)
        for row in [header, *rows]:
            assert len(row) == len(header)
            assert not any(
                cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")) for cell in row
            )
