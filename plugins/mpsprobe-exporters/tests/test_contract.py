"""What every exporter keeps to, whatever the report, and every format of every example, as it is committed.

``MPSPROBE_WRITE_GOLDEN=1`` writes those files anew; read the difference before committing it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
from example_reports import coverage, examples, finding, hostile_coverage, hostile_reports, on_any_text, samples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpsprobe.declarations import ExporterDeclaration, resolve
from mpsprobe.errors import ReportError
from mpsprobe.schemas import UnknownReport
from mpsprobe.schemas.report import Report
from mpsprobe_devkit.testing import exporter_contract
from mpsprobe_devkit.testing.strategies import reports_of
from mpsprobe_exporters.html.exporter import HtmlExporter
from mpsprobe_exporters.plugin import mpsprobe_exporters
from mpsprobe_exporters.table import TableExporter

DECLARED = list(mpsprobe_exporters())
EXPORTERS: dict[str, Any] = {one.name: resolve(one.target)() for one in DECLARED}
OF_COVERAGE = {one.name: EXPORTERS[one.name] for one in DECLARED if "coverage" in one.kinds and not one.binary}
PAIRS = [(one, kind) for one in DECLARED for kind in one.kinds]
FEW, MANY = 500, 8000

# One class of tests for each exporter, by the contract of the kit for authors.
globals().update({f"Test{one.name.title().replace('-', '')}": exporter_contract(one) for one in DECLARED})


def test_the_plugin_is_found_by_its_entry_point_and_every_kind_has_a_sample() -> None:
    (found,) = entry_points(group="mpsprobe", name="exporters")
    assert found.value == "mpsprobe_exporters.plugin"
    assert {"table", "json", "markdown", "csv"} <= set(OF_COVERAGE)
    extensions = [one.extension for one in DECLARED if not one.folder]
    assert len(set(extensions)) == len(extensions)
    assert {kind for one in DECLARED for kind in one.kinds} <= {one.kind for one in samples()}


def test_a_report_of_another_kind_is_refused_in_words_or_kept_whole() -> None:
    report = UnknownReport.model_validate({"kind": "cover\x1bage", "schema_version": 7, "extra": {"a": [1, None]}})
    for name, exporter in OF_COVERAGE.items():
        if name == "json":
            assert '"extra": {' in exporter.render(report)
            continue
        with pytest.raises(ReportError, match="version 7") as raised:
            exporter.render(report)
        assert "json" in str(raised.value) and "\x1b" not in str(raised.value)


@on_any_text
def test_any_string_stays_text(text: str) -> None:
    """Nothing but printable characters and line ends comes out, and UTF-8 can hold it."""
    for report in hostile_reports(text):
        for declaration in DECLARED:
            if report.kind in declaration.kinds and declaration.name in OF_COVERAGE:
                rendered = EXPORTERS[declaration.name].render(report)
                rendered.encode("utf-8")
                odd = {one for one in rendered if not (one.isprintable() or one in "\r\n")}
                assert not odd, (declaration.name, report.kind, text)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(pair=st.sampled_from(PAIRS), data=st.data())
def test_any_report_is_rendered_or_refused_in_words(pair: tuple[ExporterDeclaration, str], data: st.DataObject) -> None:
    declaration, kind = pair
    exporter, report = EXPORTERS[declaration.name], data.draw(reports_of(kind))
    try:
        if declaration.folder:
            assert all(b"".join(content) for _, content in exporter.files(report))
        else:
            assert exporter.render(report)
    except ReportError as refusal:
        assert refusal.message


def test_numbers_beyond_any_run_are_no_trouble() -> None:
    huge = 10**400
    report = hostile_coverage("x")
    summary = report.summary.model_copy(update={"calls": huge, "operators": huge})
    one = report.operators[0].model_copy(update={"calls": huge, "input_bytes": huge, "phases": {"forward": huge}})
    for exporter in OF_COVERAGE.values():
        assert exporter.render(report.model_copy(update={"summary": summary, "operators": [one]}))


@pytest.mark.thorough
def test_sixteen_times_the_findings_take_about_sixteen_times_as_long() -> None:
    few, many = (
        coverage("2.6.0", [finding(f"aten::op{n}", "missing", modules=[f"a.{n}.b"]) for n in range(count)])
        for count in (FEW, MANY)
    )
    slow = []
    for name, exporter in OF_COVERAGE.items():
        spent = []
        for report in (few, few, many):  # the first one imports
            begun = thread_time()
            exporter.render(report)
            spent.append(thread_time() - begun)
        slow += [(name, spent)] if spent[2] >= 4 * (MANY / FEW) * spent[1] + 0.5 else []
    assert not slow


GOLDEN = Path(__file__).parent / "golden"
WRITE = os.environ.get("MPSPROBE_WRITE_GOLDEN") == "1"

# The others are looked at part by part, or read back, in tests of their own.
SHOWN = ("table", "markdown", "csv", "junit", "prometheus")
NARROW, WIDE = ("measured", "compared"), ("mixed", "matrix", "advised")
# What every page has; each has tests of its own.
SHARED = re.compile(r"<style>.*?</style>|<script>.*?</script>| content=\"default-src[^\"]*\"", re.DOTALL)
LINES = re.compile(r"(?=<(?:section|details|div|tr|li|p|h\d|dt|text|path|rect|button)\b)")


def drawn(name: str, report: Report) -> Iterator[tuple[str, str]]:
    """Each golden file of a report, and what it should hold."""
    for declaration in mpsprobe_exporters():
        if declaration.name in SHOWN and report.kind in declaration.kinds:
            yield f"{name}{declaration.extension}", resolve(declaration.target)().render(report)
    for width in (*([40] if name in NARROW else []), 80, 120, *([160] if name in WIDE else [])):
        text = TableExporter(width, everything=False).render(report)
        assert max(map(len, text.split("\n"))) <= width
        yield f"{name}-{width}.txt", text
    # The page without its styles and scripts, an element on a line.
    yield f"{name}.html", LINES.sub("\n", SHARED.sub("", HtmlExporter().render(report)))
    if name == "failed":
        yield "failed-color.txt", TableExporter(80, color=True, everything=False).render(report)
    if name in ("failed", "measured"):
        text = TableExporter(80, encoding="ascii").render(report)
        assert text.isascii() and (name == "failed" or "?" not in text)
        yield f"{name}-ascii.txt", text


def test_every_format_is_as_committed() -> None:
    expected = {path.name: path.read_bytes() for path in GOLDEN.glob("[!.]*")}
    found = {file: text.encode() for name, report in examples().items() for file, text in drawn(name, report)}
    if WRITE:
        for file in expected.keys() - found.keys():
            (GOLDEN / file).unlink()
        for file, data in found.items():
            (GOLDEN / file).write_bytes(data)
        return
    assert set(found) == set(expected), "a file is missing or left over"
    for file, data in found.items():
        assert data.decode() == expected[file].decode(), file
