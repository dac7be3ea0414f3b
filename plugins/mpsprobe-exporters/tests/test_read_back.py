"""What readers make of JSON, Markdown, JUnit, Prometheus, CSV and Parquet: the same report, whatever text is in it."""

from __future__ import annotations

import csv
import html
import importlib.util
import io
import json
import math
import re
from itertools import chain
from typing import Any
from xml.etree import ElementTree as Xml

import pyarrow
import pyarrow.parquet
import pytest
from example_reports import (
    HOSTILE,
    coverage,
    examples,
    finding,
    hostile_coverage,
    hostile_matrix,
    hostile_profile,
    hostile_reports,
    mixed,
    on_any_text,
    profile_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from prometheus_client.parser import text_string_to_metric_families

from mpsprobe.errors import MissingPackage
from mpsprobe.schemas import ProbeReading, ProfileReport
from mpsprobe.schemas.report import Report, parse_report
from mpsprobe_devkit.testing import sample_profile_report
from mpsprobe_exporters.formats.csv_rows import CsvExporter
from mpsprobe_exporters.formats.json_document import JsonExporter
from mpsprobe_exporters.formats.junit import LONGEST_ATTRIBUTE, JunitExporter
from mpsprobe_exporters.formats.profile_rows import COLUMNS, METADATA, ParquetExporter, rows
from mpsprobe_exporters.formats.prometheus import PrometheusExporter
from mpsprobe_exporters.markdown import MarkdownExporter, code, prose, table
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.plugin import ALL_KINDS

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


PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
OWN_TAGS = {
    "p",
    "hr",
    "strong",
    "code",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "ul",
    "li",
    "h3",
    "details",
    "summary",
}


def shown(markdown: str) -> str:
    """The text that a reader sees, on one line."""
    return one_line(html.unescape(re.sub(r"<!-- -->|</?(code|p)>", "", PARSER.render(markdown))), None)


@on_any_text
def test_any_string_is_shown_as_it_is(text: str) -> None:
    assert shown(f"x {code(text, None)}") == one_line(f"x {one_line(text, None)}", None)
    pairs_of_backticks = one_line(text, None).count("`") >= 2
    if not pairs_of_backticks:
        assert shown(f"x {prose(text)}") == one_line(f"x {one_line(text, None)}", None)
    cells = [[code(text), prose(text), "end"], ["a", "b", "end"]]
    rendered = PARSER.render("\n".join(table(["one", "two", "three"], cells)))
    assert rendered.count("<tr>") == 3 and rendered.count("<td>end</td>") == 2


def test_backticks_around_plain_code_stay() -> None:
    assert prose("set A_B=1 before `import torch`") == "set A_B=1 before `import torch`"
    assert "<script>" not in PARSER.render(prose("`<script>` `a` <script>"))


@on_any_text
def test_no_string_adds_structure_to_a_document(text: str) -> None:
    for made in (hostile_coverage, hostile_matrix):
        check_document(made(text), made("plain"), blank=not one_line(text))


def check_document(report: Report, plain: Report, *, blank: bool = False) -> None:
    """The same headings, tables and rows as with a plain word; no tag that is not ours."""
    rendered, expected = (PARSER.render(MarkdownExporter().render(one)) for one in (report, plain))
    assert set(re.findall(r"<(\w+)", rendered)) <= OWN_TAGS
    for tag in ("<h3>", "<table>", "<tr>", "<ul>", "<li>"):
        # What is empty has no line.
        assert rendered.count(tag) == expected.count(tag) or (rendered.count(tag) < expected.count(tag) and blank)


# What junit-10.xsd of Jenkins' xUnit plugin allows, as far as it is used: element -> attributes (those that have to be
# there end with !) and children, in their order.
RULES = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, ["testsuite"]),
    "testsuite": (
        {"name!", "tests!", "failures!", "errors!", "skipped", "time"},
        ["properties", "testcase", "system-out", "system-err"],
    ),
    "properties": (set(), ["property"]),
    "property": ({"name!", "value!"}, []),
    "testcase": ({"name!", "classname", "time"}, ["skipped", "error", "failure", "system-out", "system-err"]),
    "failure": ({"message", "type"}, []),
    "skipped": ({"message"}, []),
    "system-out": (set(), []),
}


def parsed(report: Report) -> Xml.Element:
    """The document, compared with the rules."""
    text = JunitExporter().render(report)
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ')
    root = Xml.fromstring(text.encode("utf-8"))
    check(root)
    for suite in [root, *root]:
        cases = list(suite.iter("testcase"))
        assert int(suite.attrib["tests"]) == len(cases)
        assert int(suite.attrib["failures"]) == sum(case.find("failure") is not None for case in cases)
        if suite is not root:
            assert int(suite.attrib["skipped"]) == sum(case.find("skipped") is not None for case in cases)
        assert suite.attrib["errors"] == "0" and re.fullmatch(r"[0-9]+\.[0-9]+", suite.attrib["time"])
    names = [(case.attrib["classname"], case.attrib["name"]) for case in root.iter("testcase")]
    assert len(set(names)) == len(names), "a reader would take two cases for one"
    return root


def check(element: Xml.Element) -> None:
    attributes, children = RULES[element.tag]
    assert set(element.attrib) <= {name.rstrip("!") for name in attributes}
    assert {name.rstrip("!") for name in attributes if name.endswith("!")} <= set(element.attrib)
    order = [children.index(child.tag) for child in element]
    assert order == sorted(order), "the schema has an order"
    assert all(len(value) <= LONGEST_ATTRIBUTE for value in element.attrib.values())
    assert sum(child.tag in ("failure", "skipped", "error") for child in element) <= 1 or element.tag != "testcase"
    for child in element:
        check(child)


def test_every_example_and_hostile_text_keeps_to_the_rules() -> None:
    for report in (*examples().values(), *chain.from_iterable(map(hostile_reports, HOSTILE))):
        # Of several workloads, names that are all one text are those of two cases.
        if report.kind in ALL_KINDS and (report.kind != "coverage-several" or report in examples().values()):
            parsed(report)


def test_what_xml_cannot_hold_and_what_was_never_timed() -> None:
    root = parsed(coverage("2.6.0", [finding("aten::a\x00\x1b\ud800\ufffe<b>&\"'", "missing")]))
    assert [case.attrib["name"] for case in root.iter("testcase")] == ["aten::a\ufffd\ufffd\ufffd\ufffd<b>&\"'"]
    [case] = parsed(profile_of(step=None)).iter("testcase")
    assert [child.tag for child in case if child.tag in ("failure", "skipped")] == ["skipped"]


UNITS = {"seconds", "bytes", "joules", "watts", "celsius", "ratio", "hertz"}
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read_back(report: Report) -> Series:
    """Every sample, by name and labels."""
    text = PrometheusExporter().render(report)
    found: Series = {}
    names = []
    for family in text_string_to_metric_families(text):
        names.append(family.name)
        assert family.type == "gauge" and family.documentation
        for sample in family.samples:
            assert re.fullmatch("mpsprobe_[a-z][a-z0-9_]*", sample.name)
            assert all(re.fullmatch("[a-z][a-z0-9_]*", label) for label in sample.labels)
            assert math.isfinite(sample.value)
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, "two series of one name and labels"
            found[key] = sample.value
    assert len(set(names)) == len(names), "the lines of a metric stand together"
    for name, unit in re.findall(r"^# UNIT (\S+) (\S+)$", text, re.MULTILINE):
        assert unit in UNITS and name.endswith(f"_{unit}")
    return found


def value(series: Series, name: str, **labels: str) -> float:
    """The one sample of ``name`` that has ``labels`` among its own."""
    [found] = [v for (n, have), v in series.items() if n == name and set(labels.items()) <= have]
    return found


def test_every_example_and_hostile_text_is_read_back() -> None:
    for report in (*examples().values(), *chain.from_iterable(map(hostile_reports, HOSTILE))):
        assert report.kind not in ALL_KINDS or read_back(report)


def test_quotes_and_backslashes_come_back_as_they_are() -> None:
    name = 'a\\b"c\\n{d="e"} f'
    operator = sample_profile_report().cells[0].operators[0].model_copy(update={"operator": name})
    assert value(read_back(profile_of(operators=[operator])), "mpsprobe_operator_calls", operator=name) == 1


def test_the_unit_in_the_name_of_a_reading() -> None:
    wanted = {
        "window_ns": ("mpsprobe_reading_seconds", "window", 1e-9),
        "cpu_ns_per_step": ("mpsprobe_reading_seconds", "cpu_per_step", 1e-9),
        "gpu_mw": ("mpsprobe_reading_watts", "gpu", 1e-3),
        "battery_percent": ("mpsprobe_reading_ratio", "battery", 0.01),
        "cpu_mhz": ("mpsprobe_reading_hertz", "cpu", 1e6),
        "process_bytes": ("mpsprobe_reading_bytes", "process", 1),
        "hottest_celsius_after": ("mpsprobe_reading_celsius", "hottest_after", 1),
        "steps": ("mpsprobe_reading", "steps", 1),
    }
    readings = [ProbeReading(probe="p", values={**dict.fromkeys(wanted, 3.0), "sensor": "words are left out"})]
    series = read_back(profile_of(readings=readings))
    for metric, label, factor in wanted.values():
        assert value(series, metric, probe="p", value=label) == pytest.approx(3.0 * factor)
    assert not [labels for _, labels in series if ("value", "sensor") in labels]


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


def held(report: ProfileReport) -> pyarrow.Table:
    return pyarrow.parquet.read_table(io.BytesIO(ParquetExporter().render(report)))


def test_it_holds_the_rows() -> None:
    report = sample_profile_report()
    read = held(report)
    assert read.column_names == list(COLUMNS)
    assert [tuple(row.values()) for row in read.to_pylist()] == [tuple(map(row.get, COLUMNS)) for row in rows(report)]
    types = {name: str(read.schema.field(name).type) for name in ("workload", "batch_size", "value", "outlier")}
    assert types == {"workload": "string", "batch_size": "int64", "value": "double", "outlier": "bool"}


def test_the_report_can_be_put_together_again() -> None:
    report = sample_profile_report()
    read = held(report)
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
        read = held(hostile_profile(text)).to_pylist()
        kept = text.encode("utf-8", "backslashreplace").decode()
        first = [row for row in read if row["batch_size"] is None]
        assert first[0]["workload"] == kept
        assert {row["value"] for row in first if row["kind"] == "step"} == {0.0, 5.0, None}


def test_nothing_measured_and_numbers_that_a_double_rounds() -> None:
    read = held(sample_profile_report().model_copy(update={"cells": []}))
    assert read.num_rows == 0 and read.column_names == list(COLUMNS)
    numbers = [2**53 + 1, 10**18, 2**63 - 1]
    assert set(map(float, numbers)) <= set(held(profile_of(first_call_ns=numbers)).column("value").to_pylist())


def test_without_pyarrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match=r'pip install "mpsprobe-exporters\[parquet\]"'):
        ParquetExporter()
