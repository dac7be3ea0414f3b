"""What every exporter of this plugin that writes text keeps to, whatever the report."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from example_reports import coverage, examples, mixed
from hostile import HOSTILE, hostile_comparisons, hostile_coverage, hostile_matrix, hostile_profile, texts
from hypothesis import given, settings

from mpsprobe.declarations import ExporterDeclaration, resolve
from mpsprobe.errors import ReportError
from mpsprobe.protocols import Exporter
from mpsprobe.schemas import UnknownReport
from mpsprobe_exporters.plugin import mpsprobe_exporters

DECLARED = list(mpsprobe_exporters())
OF_COVERAGE = [one for one in DECLARED if "coverage" in one.kinds and not one.binary]
# The first counts and does not name; the others have what is to do.
TELLING_ALL = [one for one in OF_COVERAGE if one.name not in ("prometheus", "sarif", "annotations")]
every_exporter = pytest.mark.parametrize("declaration", OF_COVERAGE, ids=lambda one: one.name)


def exporter_of(declaration: ExporterDeclaration) -> Exporter:
    made = resolve(declaration.target)()
    assert isinstance(made, Exporter)
    return made


def test_the_plugin_is_found_by_its_entry_point() -> None:
    (found,) = entry_points(group="mpsprobe", name="exporters")
    assert found.value == "mpsprobe_exporters.plugin"
    assert {"table", "json", "markdown", "csv"} <= {one.name for one in OF_COVERAGE}
    extensions = [one.extension for one in DECLARED if not one.folder]
    assert len(set(extensions)) == len(extensions)


@every_exporter
@pytest.mark.parametrize("name", examples())
def test_renders_text_that_ends_with_a_line_end_and_is_always_the_same(
    declaration: ExporterDeclaration, name: str
) -> None:
    report = examples()[name]
    if report.kind not in declaration.kinds:
        assert report.kind in ("comparison", "profile")
        return
    text = exporter_of(declaration).render(report)
    assert isinstance(text, str) and not declaration.binary
    assert text.endswith("\n") and not text.endswith("\n\n")
    assert exporter_of(declaration).render(report) == text


@pytest.mark.parametrize("declaration", TELLING_ALL, ids=lambda one: one.name)
def test_hides_nothing(declaration: ExporterDeclaration) -> None:
    failure = {"phase": "backward", "error": "ValueError", "message": "broken wheel"}
    report = mixed().model_copy(update={"failure": coverage("2.6.0", [], failure=failure).failure})
    text = " ".join(str(exporter_of(declaration).render(report)).replace("<wbr>", "").split())
    names = [one.operator for one in report.operators] + [one.operator for one in report.not_judged]
    names += [one.operator for one in report.data_dependence]
    for expected in [*names, "a kernel of its own", "taken to be false", "broken wheel"]:
        assert expected in text


@every_exporter
def test_a_report_of_another_kind_is_refused_in_words_or_kept_whole(declaration: ExporterDeclaration) -> None:
    report = UnknownReport.model_validate({"kind": "cover\x1bage", "schema_version": 7, "extra": {"a": [1, None]}})
    if declaration.name == "json":
        assert '"extra": {' in exporter_of(declaration).render(report)
        return
    with pytest.raises(ReportError, match="version 7") as raised:
        exporter_of(declaration).render(report)
    assert "json" in str(raised.value) and "\x1b" not in str(raised.value)


@every_exporter
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_known_hostile_strings_stay_text(declaration: ExporterDeclaration, text: str) -> None:
    check_hostile(declaration, text)


@every_exporter
@settings(max_examples=25, deadline=None)
@given(text=texts)
def test_any_string_stays_text(declaration: ExporterDeclaration, text: str) -> None:
    check_hostile(declaration, text)


def check_hostile(declaration: ExporterDeclaration, text: str) -> None:
    """Nothing but printable characters and line ends comes out, and UTF-8 can hold it."""
    reports = [hostile_coverage(text), hostile_matrix(text), hostile_profile(text), *hostile_comparisons(text)]
    for report in reports:
        if report.kind not in declaration.kinds:
            continue
        rendered = exporter_of(declaration).render(report)
        assert isinstance(rendered, str)
        rendered.encode("utf-8")
        assert all(c.isprintable() or c in "\r\n" for c in rendered)


@every_exporter
def test_numbers_beyond_any_run_are_no_trouble(declaration: ExporterDeclaration) -> None:
    huge = 10**400
    report = hostile_coverage("x")
    summary = report.summary.model_copy(update={"calls": huge, "operators": huge})
    one = report.operators[0].model_copy(update={"calls": huge, "input_bytes": huge, "phases": {"forward": huge}})
    assert exporter_of(declaration).render(report.model_copy(update={"summary": summary, "operators": [one]}))


def test_neither_torch_nor_rich_is_imported_before_it_is_needed() -> None:
    program = """
import sys
import mpsprobe_exporters.plugin
assert not {"rich", "pydantic", "torch"} & set(sys.modules), "the thin module"
import mpsprobe_exporters.json_document, mpsprobe_exporters.markdown, mpsprobe_exporters.csv_rows
assert "rich" not in sys.modules, "the others"
import mpsprobe_exporters.table
from mpsprobe.schemas import CoverageReport
assert "torch" not in sys.modules, "the table"
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
