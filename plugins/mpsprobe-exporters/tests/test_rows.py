"""Rows that a spreadsheet and a parser read as they were meant; golden files have CSV's, pyarrow reads Parquet's."""

from __future__ import annotations

import csv
import importlib.util
import io

import pyarrow
import pyarrow.parquet
import pytest
from example_reports import coverage, finding
from hostile import HOSTILE, hostile_coverage, hostile_matrix, hostile_profile, on_any_text

from mpsprobe.errors import MissingPackage
from mpsprobe.schemas import ProfileReport
from mpsprobe.schemas.report import Report
from mpsprobe_devkit.testing import sample_profile_report
from mpsprobe_exporters.csv_rows import CsvExporter
from mpsprobe_exporters.parquet import METADATA, ParquetExporter
from mpsprobe_exporters.profile_rows import COLUMNS, rows


def rows_of(report: Report) -> list[list[str]]:
    return list(csv.reader(io.StringIO(CsvExporter().render(report), newline=""), strict=True))


def test_composite_operators_are_listed_too() -> None:
    listed = rows_of(coverage("2.6.0", [finding("aten::reshape", "composite"), finding("aten::add.Tensor")]))
    assert [row[:2] for row in listed[1:]] == [["aten::add.Tensor", "native"], ["aten::reshape", "composite"]]


@on_any_text
def test_no_cell_is_a_formula_or_breaks_its_row(text: str) -> None:
    for report in (hostile_coverage(text), hostile_matrix(text)):
        header, *others = rows_of(report)
        for row in [header, *others]:
            assert len(row) == len(header)
            assert not any(
                cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")) for cell in row
            )


def table(report: ProfileReport) -> pyarrow.Table:
    return pyarrow.parquet.read_table(io.BytesIO(ParquetExporter().render(report)))


def test_it_holds_the_rows() -> None:
    report = sample_profile_report()
    read = table(report)
    assert read.column_names == list(COLUMNS)
    assert [tuple(row.values()) for row in read.to_pylist()] == [tuple(row) for row in rows(report)]
    types = {name: str(read.schema.field(name).type) for name in ("workload", "batch_size", "value", "outlier")}
    assert types == {"workload": "string", "batch_size": "int64", "value": "double", "outlier": "bool"}


def test_the_report_can_be_put_together_again() -> None:
    report = sample_profile_report()
    read = table(report)
    rest = ProfileReport.model_validate_json(read.schema.metadata[METADATA])
    assert rest == report.model_copy(update={"cells": []})
    found = [row for row in read.to_pylist() if (row["device"], row["batch_size"]) == ("mps", 2)]
    cell = report.cells[0]
    steps = [(row["process"], row["value"], row["outlier"]) for row in found if row["kind"] == "step"]
    assert steps == [(one.process, one.duration_ns, one.outlier) for one in cell.steps]
    own = {row["name"]: (row["value"], row["steps"]) for row in found if row["measure"] == "self_device"}
    assert own == {one.operator: (one.self_device_ns, 2) for one in cell.operators} | {"encoder.0": (320_000, 2)}
    curve = [
        (row["time_ns"], row["value"]) for row in found if row["kind"] == "memory_curve" and row["name"] == "process"
    ]
    assert cell.memory is not None
    assert curve == list(zip(cell.memory.curve.times_ns, cell.memory.curve.process_bytes, strict=True))


def test_any_text_and_any_number_can_be_held() -> None:
    for text in HOSTILE:
        read = table(hostile_profile(text)).to_pylist()
        kept = text.encode("utf-8", "backslashreplace").decode()
        first = [row for row in read if row["batch_size"] is None]
        assert first[0]["workload"] == kept
        assert {row["value"] for row in first if row["kind"] == "step"} == {0.0, 5.0, None}


def test_nothing_measured_and_numbers_that_a_double_rounds() -> None:
    read = table(sample_profile_report().model_copy(update={"cells": []}))
    assert read.num_rows == 0 and read.column_names == list(COLUMNS)
    numbers = [2**53 + 1, 10**18, 2**63 - 1]
    report = sample_profile_report()
    report = report.model_copy(update={"cells": [report.cells[0].model_copy(update={"first_call_ns": numbers})]})
    assert set(map(float, numbers)) <= set(table(report).column("value").to_pylist())


def test_without_pyarrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match=r'pip install "mpsprobe-exporters\[parquet\]"'):
        ParquetExporter()
