"""What a comparison says in words, on a terminal, in Markdown and in CSV."""

from __future__ import annotations

import csv
import io

import pytest

from mpsprobe.schemas import ComparisonReport
from mpsprobe_devkit.testing import sample_comparison_report, sample_coverage_comparison
from mpsprobe_exporters import comparison_answer as words
from mpsprobe_exporters.csv_rows import CsvExporter
from mpsprobe_exporters.markdown import MarkdownExporter
from mpsprobe_exporters.table import TableExporter


def changed(report: ComparisonReport, difference: str) -> ComparisonReport:
    """``report`` with every quantity of one difference, and nothing else to tell."""
    quantities = [
        one.model_copy(update={"difference": difference, "regression": difference == "slower"})
        for one in report.cells[0].quantities
        if one.quantity in ("step", "phase")
    ]
    cell = report.cells[0].model_copy(update={"quantities": quantities, "fallbacks": []})
    return report.model_copy(update={"cells": [cell], "regressions": sum(one.regression for one in quantities)})


@pytest.mark.parametrize(
    ("difference", "says"),
    [
        ("no difference", "No difference beyond noise (4 tests)"),
        ("slower", "4 regressions: 4 quantities slower"),
        ("faster", "No regression; 4 quantities faster"),
    ],
)
def test_the_short_answer(difference: str, says: str) -> None:
    assert words.short_answer(changed(sample_comparison_report(), difference)) == says


def test_too_few_samples_are_no_all_clear() -> None:
    report = changed(sample_comparison_report(), "too few samples")
    assert report.method is not None
    report = report.model_copy(update={"method": report.method.model_copy(update={"tests": 0})})
    assert words.short_answer(report) == "Too few samples to tell a difference from noise"


def test_coverage_in_a_sentence() -> None:
    same = sample_coverage_comparison().model_copy(
        update={"verdicts": [], "advisories": [], "failures": [], "regressions": 0}
    )
    assert words.short_answer(same) == "The same verdicts for 20 operators"
    assert words.short_answer(sample_coverage_comparison()).startswith("4 regressions: 1 verdict worse")


def test_every_format_tells_conditions_regressions_and_what_has_no_partner() -> None:
    report = sample_comparison_report()
    for text in (TableExporter(100).render(report), MarkdownExporter().render(report)):
        assert "torch: 2.12.1, now 2.13.0" in text and words.CONDITIONS in text
        assert "sample training on cpu, batch 2: in the old report only" in text
        assert "stops now, and did not before: RuntimeError: shapes differ" in text
        assert "new: aten::linalg" in text and "1.090 to 1.130" in text


def test_of_many_configurations_only_what_differs_is_shown() -> None:
    report = sample_comparison_report()
    cells = [report.cells[0].model_copy(update={"batch_size": size}) for size in range(1, 41)]
    rows, left = words.shown_quantities(report.model_copy(update={"cells": cells}), cells[0])
    assert [row.name for row in rows] == ["step", "samples/s", "backward", "optimizer"]
    assert left == "1 more quantity: too few samples; 2 more quantities: no difference"
    quiet = changed(report, "no difference").cells[0]
    some = [cells[0], *(quiet.model_copy(update={"batch_size": size}) for size in range(2, 41))]
    for shown in (cells, some):
        many = report.model_copy(update={"cells": shown})
        for width in (40, 80):
            text = TableExporter(width).render(many)
            assert max(map(len, text.splitlines())) <= width
        assert text.count("batch 40") == MarkdownExporter().render(many).count("batch 40") == 1
    assert len(text.splitlines()) < 100, "what does not differ has a line, not a block"


def test_csv_is_one_table() -> None:
    for report in (sample_comparison_report(), sample_coverage_comparison()):
        read = list(csv.reader(io.StringIO(CsvExporter().render(report), newline="")))
        assert len({len(row) for row in read}) == 1
    rows = list(csv.DictReader(io.StringIO(CsvExporter().render(sample_comparison_report()), newline="")))
    [step] = [row for row in rows if row["kind"] == "step"]
    assert (step["ratio"], step["difference"], step["regression"], step["samples"]) == (
        "1.11",
        "slower",
        "yes",
        "process",
    )
    kinds = {row["kind"] for row in rows}
    assert kinds >= {
        "step",
        "throughput",
        "phase",
        "memory",
        "operator",
        "fallback",
        "failure",
        "unpaired",
        "condition",
    }
