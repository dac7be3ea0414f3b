"""What a comparison says in words, on a terminal, in Markdown and in CSV."""

from __future__ import annotations

from mpsprobe.schemas import ComparisonReport
from mpsprobe_devkit.testing import sample_comparison_report, sample_coverage_comparison
from mpsprobe_exporters.document import Bullets, Table
from mpsprobe_exporters.markdown import MarkdownExporter
from mpsprobe_exporters.reports.comparison import document, short_answer
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


def test_the_short_answer() -> None:
    said = {
        "no difference": "No difference beyond noise (4 tests)",
        "slower": "4 regressions: step 11% slower, backward 22% slower, forward 0% slower, and 1 more",
        "faster": "No regression; 4 quantities faster",
    }
    assert {one: short_answer(changed(sample_comparison_report(), one)) for one in said} == said
    report = changed(sample_comparison_report(), "too few samples")
    assert report.method is not None
    report = report.model_copy(update={"method": report.method.model_copy(update={"tests": 0})})
    assert short_answer(report) == "Too few samples to know a difference from noise"


def test_coverage_in_a_sentence() -> None:
    report = sample_coverage_comparison()
    same = report.model_copy(update={"verdicts": [], "advisories": [], "failures": [], "regressions": 0})
    assert short_answer(same) == "The same verdicts for 20 operators"
    worse = [one for one in report.verdicts if one.change == "worse"]
    better = [one for one in report.verdicts if one.change == "better"] * 3
    update = {"verdicts": [*worse, *better], "advisories": [], "failures": [], "regressions": 1}
    found = short_answer(report.model_copy(update=update))
    assert found == "1 regression: aten::linalg_qr.out was native and is missing; 3 verdicts better, 20 as before"


def test_of_many_configurations_only_what_differs_is_shown() -> None:
    report = sample_comparison_report()
    cells = [report.cells[0].model_copy(update={"batch_size": size}) for size in range(1, 41)]
    sections = document(report.model_copy(update={"cells": cells})).sections
    table, notes, *_ = next(one for one in sections if one.title.endswith("batch 1, float32")).blocks
    assert isinstance(table, Table) and [row[0] for row in table.rows] == ["step", "samples/s", "backward", "optimizer"]
    assert isinstance(notes, Bullets)
    assert notes.lines[0].text == "1 more quantity: too few samples; 2 more quantities: no difference"
    quiet = changed(report, "no difference").cells[0]
    some = [cells[0], *(quiet.model_copy(update={"batch_size": size}) for size in range(2, 41))]
    for shown in (cells, some):
        many = report.model_copy(update={"cells": shown})
        for width in (40, 80):
            text = TableExporter(width).render(many)
            assert max(map(len, text.splitlines())) <= width
        assert text.count("batch 40") == MarkdownExporter().render(many).count("batch 40") == 1
    assert len(text.splitlines()) < 100, "what does not differ has a line, not a block"
