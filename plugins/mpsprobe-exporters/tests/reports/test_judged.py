"""What is to do about one release, what many releases say, and MPSGraphs that are compiled for new shapes."""

from __future__ import annotations

from typing import Any

from example_reports import finding, matrix, mixed

from mpsprobe.schemas import GraphCount, GraphGrowth, MatrixReport, OperatorFinding
from mpsprobe_exporters import document as model
from mpsprobe_exporters.reports import matrix as reports
from mpsprobe_exporters.reports.coverage import one_for_each_cure
from mpsprobe_exporters.table import TableExporter

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
    assert (one.call_sites, one.shapes) == (["a.py:3"], names)
    assert two is other
    assert [each.operator for each in one_for_each_cure(found[:2])] == ["aten::op0, aten::op1"]
    found = [unsupported(f"aten::op{index}", reason="a guard") for index in range(2)]
    assert one_for_each_cure(found) == found


def grid(report: MatrixReport) -> model.Grid:
    [found] = [
        block
        for section in reports.document(report).sections
        for block in section.blocks
        if isinstance(block, model.Grid)
    ]
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
