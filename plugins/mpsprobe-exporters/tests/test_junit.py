"""JUnit XML: what readers' schemas ask for, which cases fail, and text that XML cannot hold."""

from __future__ import annotations

import re
from itertools import chain
from xml.etree import ElementTree as Xml

from example_reports import coverage, examples, finding
from hostile import HOSTILE, hostile_reports

from mpsprobe.schemas.report import Report
from mpsprobe_devkit.testing import sample_profile_report
from mpsprobe_exporters.junit import LONGEST_ATTRIBUTE, JunitExporter
from mpsprobe_exporters.plugin import ALL_KINDS

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
    report = sample_profile_report()
    report = report.model_copy(update={"cells": [report.cells[0].model_copy(update={"step": None})]})
    [case] = parsed(report).iter("testcase")
    assert [child.tag for child in case if child.tag in ("failure", "skipped")] == ["skipped"]
