"""Comparisons, what is to do about one release, what many say, and graphs that are compiled for new shapes."""

from __future__ import annotations

from typing import Any

from example_reports import finding, matrix, mixed

from mpsprobe.schemas import ComparisonReport, GraphCount, GraphGrowth, MatrixReport, OperatorFinding
from mpsprobe_devkit.testing import sample_comparison_report, sample_coverage_comparison
from mpsprobe_exporters import document as model
from mpsprobe_exporters.document import Bullets, Table
from mpsprobe_exporters.markdown import MarkdownExporter
from mpsprobe_exporters.reports import matrix as reports
from mpsprobe_exporters.reports.comparison import document, short_answer
from mpsprobe_exporters.reports.coverage import one_for_each_cure
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


GROWTH = GraphGrowth(
    varied="seq-len", first=1, last=512, tried=[1, 256, 512], fixed=GraphCount(least=0, most=2),
    each=GraphCount(least=3, most=10), total=GraphCount(least=1536, most=5122), padded_to=64,
    padded=GraphCount(least=24, most=82),
)  # fmt: skip


def unsupported(name: str, **fields: Any) -> OperatorFinding:
    return OperatorFinding.model_validate(finding(name, "unsupported", **fields))


def test_findings_with_one_cure_are_one_entry_and_others_stay_apart() -> None:
    same = {"reason": "a float64 tensor", "advice": "Use float32 at a.py:3."}
    names = [f"aten::op{index}" for index in range(5)]
    found = [unsupported(name, call_sites=["a.py:3"], shapes=[name], **same) for name in names]
    other = unsupported("aten::other", reason="a float64 tensor", advice="Use float32 at a.py:9.")
    one, two = one_for_each_cure([*found, other])
    assert one.operator == "aten::op0 and 4 more"
    assert one.calls == sum(each.calls for each in found)
    assert (one.call_sites, one.shapes) == (["a.py:3"], [])  # of which operator a shape is, would be lost
    assert two == other
    assert [each.operator for each in one_for_each_cure(found[:2])] == ["aten::op0, aten::op1"]
    found = [unsupported(f"aten::op{index}", reason="a guard") for index in range(2)]
    assert one_for_each_cure(found) == found


def grid(report: MatrixReport) -> model.Grid:
    blocks = [block for section in reports.document(report).sections for block in section.blocks]
    [found] = [one for one in blocks if isinstance(one, model.Grid)]
    return found


def test_what_a_stopped_run_did_not_reach_is_not_called_native() -> None:
    made = matrix()
    reached = {name: verdict for name, verdict in made.releases[0].findings.items() if name != "aten::as_strided"}
    first = made.releases[0].model_copy(update={"findings": reached})
    stopped = grid(made.model_copy(update={"releases": [first, *made.releases[1:]]}))
    assert dict(stopped.rows)["aten::as_strided"][-1] == "?"
    assert stopped.legend == ["· native, or not called there", "? not met before the run stopped"]
    assert grid(made).legend == ["· native, or not called there"]


def test_how_many_lengths_grow() -> None:
    report = mixed()
    first = report.operators[0].model_copy(update={"graph": "may", "graphs": 3})
    report = report.model_copy(update={"growth": GROWTH, "operators": [first, *report.operators[1:]]})
    text = " ".join(TableExporter().render(report).split())
    assert "seq-len 1 to 512 compile 1,536 to 5,122 graphs: 3 to 10 for each value" in text
    assert "Padded to multiples of 64 they compile 24 to 82." in text
    assert f"because of {first.operator}" in text and "at most 3 in this run" in text
