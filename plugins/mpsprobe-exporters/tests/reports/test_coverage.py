"""What is to do about one release."""

from __future__ import annotations

from typing import Any

from example_reports import finding

from mpsprobe.schemas import OperatorFinding
from mpsprobe_exporters.reports.coverage import one_for_each_cure


def unsupported(name: str, **fields: Any) -> OperatorFinding:
    return OperatorFinding.model_validate(finding(name, "unsupported", **fields))


def test_findings_with_one_cure_are_one_entry() -> None:
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


def test_findings_without_advice_stay_apart() -> None:
    found = [unsupported(f"aten::op{index}", reason="a guard") for index in range(2)]
    assert one_for_each_cure(found) == found
