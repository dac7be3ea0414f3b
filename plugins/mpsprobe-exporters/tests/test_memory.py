"""Predicted memory: whether it fits on a Mac, in words, and the curve of a page."""

from __future__ import annotations

import csv
import io

import pytest

from mpsprobe.schemas import CoverageReport, JudgedWorkload, MatrixReport, MemoryFigures, MemoryRange, SeveralReport
from mpsprobe_devkit.testing import sample_coverage_report, sample_matrix_report
from mpsprobe_exporters.csv_rows import CsvExporter
from mpsprobe_exporters.fitting import alerts, in_short, lines
from mpsprobe_exporters.html.views.predicted import predicted
from mpsprobe_exporters.markdown import MarkdownExporter
from mpsprobe_exporters.table import TableExporter

REPORT = sample_coverage_report()
MEMORY = REPORT.memory
assert MEMORY is not None
FIT = MEMORY.fit
assert FIT is not None


def with_answer(low: str, high: str, answer: str) -> CoverageReport:
    fit = FIT.model_copy(
        update={
            "answer": answer,
            "low": FIT.low.model_copy(update={"answer": low, "message": FIT.low.message if low == "raises" else None}),
            "high": FIT.low.model_copy(update={"answer": high}) if high == "raises" else FIT.high,
        }
    )
    return REPORT.model_copy(update={"memory": MEMORY.model_copy(update={"fit": fit})})


@pytest.mark.parametrize(
    ("low", "high", "answer", "said"),
    [
        ("fits", "fits", "fits", "fits on a Mac with 1.6 GB"),
        ("pressure", "pressure", "pressure", "does not fit on a Mac with 1.6 GB: it takes 2.5 GB, 748.3 MB more than"),
        ("raises", "pressure", "unclear", "fits or not on a Mac with 1.6 GB, the published figures disagree"),
        ("raises", "raises", "raises", "does not fit on a Mac with 1.6 GB: it needs 2.3 GB"),
    ],
)
def test_each_answer_in_a_clause(low: str, high: str, answer: str, said: str) -> None:
    report = with_answer(low, high, answer)
    assert said in in_short(report)
    if answer == "pressure" and report.memory and report.memory.fit:
        fit = report.memory.fit.model_copy(update={"memory_bytes": 4 * 2**30})
        enough = report.model_copy(update={"memory": report.memory.model_copy(update={"fit": fit})})
        assert "under memory pressure: it takes 1.9 GB" in in_short(enough)
    assert ("raises" in (low, high)) == bool(alerts(report))


def test_limits_are_ranges_and_what_does_not_fit_is_the_headline() -> None:
    (line,) = lines(with_answer("fits", "fits", "fits"))[:1]
    assert "1.1 GB to 1.5 GB" in line and "1.9 GB to 2.5 GB" in line
    report = with_answer("raises", "raises", "raises").model_copy(update={"failure": None})
    drawn = " ".join(TableExporter().render(report).split())
    assert "Does not fit on a Mac with 1.6 GB" in drawn and "MPS backend out of memory" in drawn
    far = FIT.model_copy(update={"low": FIT.low.model_copy(update={"allowed_bytes": 10**12})})
    report = REPORT.model_copy(update={"memory": MEMORY.model_copy(update={"fit": far})})
    assert str(predicted(report)).count('class="level"') == 3


def of_releases() -> MatrixReport:
    """Four releases; the two in the middle need the same, but for less than can be seen."""
    sample = sample_matrix_report()
    peaks = {"2.11.0": 3_000_000_000, "2.12.0": 2_000_000_000, "2.13.0": 2_000_000_001, "2.14.0": 1_000_000_000}
    cells = [
        sample.releases[-1].model_copy(
            update={
                "target": sample.releases[-1].target.model_copy(update={"torch": release}),
                "memory": MemoryFigures(peak_bytes=peak, reserved_bytes=2**32),
            }
        )
        for release, peak in peaks.items()
    ]
    return sample.model_copy(update={"releases": cells})


def test_releases_that_need_the_same_are_one_row() -> None:
    drawn = MarkdownExporter().render(of_releases())
    assert "Memory: peak 1.0 GB to 3.0 GB; the allocator asks Metal for 4.3 GB." in drawn
    rows = [line for line in drawn.splitlines() if line.endswith("| 4.3 GB |")]
    assert [row.split(" | ")[0] for row in rows] == ["| 2.14.0", "| 2.12.0-2.13.0", "| 2.11.0"]
    listed = list(csv.reader(io.StringIO(CsvExporter().render(of_releases()), newline="")))
    assert ["(peak_bytes)", "3000000000", "2000000000", "2000000001", "1000000000"] in listed


def test_a_table_of_workloads_has_the_figures_of_the_newest_release() -> None:
    workloads = [JudgedWorkload(name="many", report=of_releases()), JudgedWorkload(name="none", error="it raises")]
    several = SeveralReport(environment=REPORT.environment, workloads=workloads)
    drawn = MarkdownExporter().render(several)
    (row,) = (line for line in drawn.splitlines() if line.startswith("| `many`"))
    assert "| 1.0 GB | 4.3 GB |" in row
    assert "peak_bytes=1000000000; allocated_bytes=0; reserved_bytes=4294967296" in CsvExporter().render(several)


@pytest.mark.parametrize(("low", "said"), [(2**30, "peak 1.1 GB to 2.1 GB"), (None, "peak at most 2.1 GB")])
def test_a_peak_that_depends_on_values_is_a_range(low: int | None, said: str) -> None:
    ends = MemoryRange(low_bytes=low, high_bytes=2**31, because=["aten::nonzero at rpn.py:285"])
    report = REPORT.model_copy(update={"memory": MEMORY.model_copy(update={"range": ends})})
    drawn = " ".join(TableExporter().render(report).split())
    assert said in drawn and "aten::nonzero at rpn.py:285" in drawn
