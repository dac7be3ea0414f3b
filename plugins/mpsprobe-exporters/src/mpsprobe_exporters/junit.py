"""JUnit XML, which Jenkins, GitLab and most actions for GitHub show as a list of passed and failed tests.

Elements and attributes are those that the schema of Jenkins' reader has (junit-10.xsd of its xUnit plugin); everything
else about a case stands in its ``system-out``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

from mpsprobe_exporters.junit_cases import Case, Suite, suites
from mpsprobe_exporters.plain_text import REPLACEMENT
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report

LONGEST_ATTRIBUTE = 1000


class JunitExporter:
    """A profile: one case for each configuration. Coverage: one for each operator. A comparison: one for each quantity,
    fallback and verdict, which fails if it is a regression.
    """

    def render(self, report: Report) -> str:
        """The document.

        Raises:
            ReportError: it is of a kind that has no known schema.
        """
        found = suites(supported_report(report, "junit"))
        counts = _counts([case for suite in found for case in suite.cases])
        del counts["skipped"]  # the schema has it of a suite only
        root = Xml.Element("testsuites", {"name": "mpsprobe", **counts})
        for suite in found:
            root.append(_suite(suite))
        Xml.indent(root)
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _suite(suite: Suite) -> Xml.Element:
    made = Xml.Element("testsuite", {"name": _attribute(suite.name), **_counts(suite.cases)})
    if suite.properties:
        properties = Xml.SubElement(made, "properties")
        for name, value in suite.properties:
            Xml.SubElement(properties, "property", {"name": _attribute(name), "value": _attribute(value)})
    taken: dict[tuple[str, str], int] = {}
    for case in suite.cases:
        made.append(_case(case, taken))
    return made


def _case(case: Case, taken: dict[tuple[str, str], int]) -> Xml.Element:
    group, name = _attribute(case.group), _attribute(case.name)
    taken[group, name] = taken.get((group, name), 0) + 1
    if taken[group, name] > 1:  # readers keep the history of a case by its name
        name = f"{name} ({taken[group, name]})"
    attributes = {"name": name, "classname": group}
    if case.seconds is not None:
        attributes["time"] = _seconds(case.seconds)
    made = Xml.Element("testcase", attributes)
    if case.outcome == "failure":
        said = {"message": _attribute(case.message), "type": _attribute(case.kind)}
        Xml.SubElement(made, "failure", said).text = _legal(case.message)
    elif case.outcome == "skipped":
        Xml.SubElement(made, "skipped", {"message": _attribute(case.message)})
    if case.output:
        Xml.SubElement(made, "system-out").text = _legal("\n".join(case.output))
    return made


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    found = Counter(case.outcome for case in cases)
    counts = {"tests": len(cases), "failures": found["failure"], "errors": 0, "skipped": found["skipped"]}
    time = _seconds(sum(case.seconds or 0 for case in cases))
    return {**{name: str(count) for name, count in counts.items()}, "time": time}


def _seconds(value: float) -> str:
    return f"{max(value, 0.0):.9f}"


def _attribute(text: str) -> str:
    """One line: readers show attributes in lists, and XML turns their line ends into spaces anyway."""
    clean = " ".join(_legal(text).split())
    return clean if len(clean) <= LONGEST_ATTRIBUTE else clean[: LONGEST_ATTRIBUTE - 1] + "…"


def _legal(text: str) -> str:
    """Without what XML 1.0 cannot hold, not even as a reference, and what would draw on a terminal."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else REPLACEMENT for c in text)
