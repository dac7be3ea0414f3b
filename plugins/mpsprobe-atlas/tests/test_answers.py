"""Answers: what is packed comes back, and what is alike is kept once."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mpsprobe.errors import ReportError
from mpsprobe_atlas.answers import OperatorAnswer, joined, pack, unpack

leaves = some.none() | some.booleans() | some.integers(-(2**53), 2**53) | some.floats(allow_nan=False) | some.text()
documents = some.recursive(leaves, lambda one: some.lists(one) | some.dictionaries(some.text(), one), max_leaves=8)


@settings(max_examples=50)
@given(some.dictionaries(some.text(), some.dictionaries(some.text(), documents, max_size=4), max_size=3))
def test_what_is_packed_comes_back(reports: dict[str, dict[str, object]]) -> None:
    answers = unpack(pack(reports, {release: {"8": "fits"} for release in reports}))
    assert answers.releases == tuple(reports)
    for release, report in reports.items():
        found = answers.report(release)
        assert found == report and repr(found) == repr(report)  # 1, 1.0 and True are equal
        assert answers.fits[release] == {8: "fits"}


def test_a_release_with_the_same_findings_takes_hardly_more() -> None:
    def report(release: str, verdict: str) -> dict[str, object]:
        operators = [{"operator": f"aten::{n}", "verdict": "native", "shapes": [f"{n}x{n}"]} for n in range(200)]
        worst = {"operator": "aten::mm", "verdict": verdict, "shapes": []}
        return {"target": {"torch": release}, "operators": [worst, *operators]}

    one = {"2.0.0": report("2.0.0", "missing")}
    many = {f"2.{n}.0": report(f"2.{n}.0", "missing" if n < 3 else "native") for n in range(10)}
    assert len(pack(many, {})) < 1.5 * len(pack(one, {}))
    found = unpack(pack(many, {})).findings()
    assert found[0] == OperatorAnswer("aten::mm", "missing", ("2.0.0", "2.1.0", "2.2.0"))
    assert OperatorAnswer("aten::mm", "native", tuple(f"2.{n}.0" for n in range(3, 10))) in found


def test_an_answer_of_the_first_format_is_read() -> None:
    reports = {release: {"target": {"torch": release}, "operators": [1, 2]} for release in ("2.0.0", "2.10.0")}
    texts = [json.dumps(one).encode() for one in reports.values()]
    head = {"format": 1, "releases": [*reports], "lengths": [*map(len, texts)], "operators": [], "fits": {}}
    answers = unpack(joined(zlib.compress(json.dumps(head).encode()), b"".join(texts)))
    assert {release: answers.report(release) for release in reports} == reports
    with pytest.raises(KeyError):
        answers.report("2.1.0")


@pytest.mark.parametrize("data", [b"", b"x", *(joined(zlib.compress(head), b"") for head in (b"[]", b"{}", b"{"))])
def test_what_is_damaged_is_an_error(data: bytes) -> None:
    with pytest.raises(ReportError, match="damaged"):
        unpack(data)
    with pytest.raises(ReportError, match="newer"):
        unpack(joined(zlib.compress(b'{"format": 99}'), b""))


def test_a_damaged_body_is_an_error_when_a_report_is_asked_for() -> None:
    data = pack({"2.0.0": {"operators": []}}, {})
    for damaged in (data[:-4], data[:-8] + b"damaged!", joined(unpack(data).head, b"[" * unpack(data).length)):
        answers = unpack(damaged)
        assert answers.releases == ("2.0.0",)
        with pytest.raises(ReportError, match="damaged"):
            answers.report("2.0.0")
