"""The document comes back as an equal report, with everything that was in it."""

from __future__ import annotations

import json
from typing import Any

from example_reports import examples, mixed
from hypothesis import given, settings
from hypothesis import strategies as st

from mpsprobe.schemas.report import parse_report
from mpsprobe_exporters.json_document import JsonExporter

whole = st.integers(-(2**63) + 1, 2**63 - 1)
values = st.recursive(
    st.none() | st.booleans() | whole | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_round_trip() -> None:
    for report in examples().values():
        text = JsonExporter().render(report)
        assert text.isascii() and text.startswith('{\n  "kind": "')
        assert text == json.dumps(json.loads(text), indent=2) + "\n"
        assert parse_report(text) == report
        assert JsonExporter().render(parse_report(text)) == text


def test_keys_come_in_the_order_of_the_contract() -> None:
    document = json.loads(JsonExporter().render(mixed()))
    wanted = ["kind", "schema_version", "method", "workload", "target", "environment", "summary", "operators"]
    assert list(document)[: len(wanted) + 2] == [*wanted, "not_judged", "data_dependence"]
    assert list(document["operators"][0])[:5] == ["operator", "verdict", "calls", "phases", "dtypes"]
    assert document["operators"][0]["call_sites"][0] == "/home/user/project/orthogonal.py:31"


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text().map("x_{}".format), values, max_size=3))
def test_keys_that_this_version_does_not_know_are_kept(extra: dict[str, Any]) -> None:
    document = json.loads(JsonExporter().render(mixed()))
    document = {**document, **extra, "summary": {**document["summary"], **extra}}
    again = json.loads(JsonExporter().render(parse_report(json.dumps(document))))
    assert again == document


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text().map("x_{}".format), values, max_size=3))
def test_a_report_of_another_kind_comes_back_verbatim(extra: dict[str, Any]) -> None:
    document = {"kind": "profile", "schema_version": 3, **extra}
    text = JsonExporter().render(parse_report(json.dumps(document)))
    assert text == json.dumps(document, indent=2) + "\n"
