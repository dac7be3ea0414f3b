"""SARIF and annotations: at which lines, how bad, the same from day to day, with text that wants out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from example_reports import HOSTILE, NATIVE, advised, coverage, failed, finding, hostile_coverage, hostile_matrix, mixed
from jsonschema import Draft202012Validator

from mpsprobe.schemas import CoverageReport, MatrixCell, SeveralReport
from mpsprobe.schemas.report import Report
from mpsprobe_devkit.testing import sample_coverage_report, sample_matrix_report, sample_several_report
from mpsprobe_exporters.formats.results import CLEAN, AnnotationsExporter
from mpsprobe_exporters.formats.sarif import SarifExporter

MODEL = "import torch\n\n\ndef make():\n    return torch.nn.Linear(2, 2), torch.rand(1, 2)\n"


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": False}


def _list(items: dict[str, Any], least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least}


# What SARIF 2.1.0 (OASIS, sections 3.13 to 3.52) and GitHub ask of the properties that are used. No package that can be
# installed has the JSON schema of the standard.
TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
MESSAGE = _object(("text",), text=TEXT)
RULE = _object(
    ("id", "shortDescription", "fullDescription", "help"),
    id=TEXT,
    name={"type": "string", "maxLength": 255},
    shortDescription=_object(("text",), text={**TEXT, "maxLength": 1024}),
    fullDescription=_object(("text",), text={**TEXT, "maxLength": 1024}),
    help=_object(("text",), text=TEXT, markdown=TEXT),
    defaultConfiguration=_object(("level",), level=LEVEL),
    properties={"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True, "items": TEXT}}},
)
URI = {"type": "string", "pattern": r"^(?!/)[A-Za-z0-9._~%/-]+$"}
PLACE = _object(
    ("physicalLocation",),
    physicalLocation=_object(
        ("artifactLocation", "region"),
        artifactLocation=_object(("uri",), uri=URI, uriBaseId={"const": "%SRCROOT%"}),
        region=_object(("startLine",), startLine={"type": "integer", "minimum": 1}),
    ),
    logicalLocations=_list(_object((), fullyQualifiedName=TEXT), 1),
)
RESULT = _object(
    ("ruleId", "message", "locations", "partialFingerprints"),
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": 0},
    level=LEVEL,
    message=MESSAGE,
    locations=_list(PLACE, 1),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
    suppressions=_list(
        _object(("kind",), kind={"enum": ["inSource", "external"]}, status={"const": "accepted"}, justification=TEXT)
    ),
)
RUN = _object(
    ("tool", "results"),
    tool=_object(("driver",), driver=_object(("name",), name=TEXT, version=TEXT, rules=_list(RULE))),
    invocations=_list(_object(("executionSuccessful",), executionSuccessful={"type": "boolean"})),
    results=_list(RESULT),
)
LOG = {**_object(("version", "runs"), version={"const": "2.1.0"}, runs=_list(RUN)), "$defs": {}}
LOG["properties"]["$schema"] = {"type": "string", "format": "uri"}


def sarif(report: Report) -> dict[str, Any]:
    """The run, which keeps to the standard and to itself."""
    document = json.loads(SarifExporter().render(report))
    Draft202012Validator(LOG).validate(document)
    [run] = document["runs"]
    rules = [one["id"] for one in run["tool"]["driver"]["rules"]]
    assert len(set(rules)) == len(rules)
    assert all(rules[one["ruleIndex"]] == one["ruleId"] for one in run["results"])
    prints = [one["partialFingerprints"]["primaryLocationLineHash"] for one in run["results"]]
    assert len(set(prints)) == len(prints), "GitHub would take two results for one"
    return dict(run)


def places(run: dict[str, Any]) -> list[tuple[str, int]]:
    """File and line of each result."""
    found = [one["locations"][0]["physicalLocation"] for one in run["results"]]
    return [(one["artifactLocation"]["uri"], one["region"]["startLine"]) for one in found]


def commands(report: Report) -> list[tuple[str, dict[str, str], str]]:
    """What the runner of GitHub Actions reads: command, properties, message; each line is one command."""
    found = []
    for line in AnnotationsExporter().render(report).splitlines():
        parts = re.fullmatch(r"::(error|warning|notice) ([^:]*)::(.*)", line)
        assert parts is not None, line
        properties = dict(one.split("=", 1) for one in parts[2].split(","))
        assert set(properties) <= {"file", "line", "title"}
        escapes = (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%"))
        for escape, character in escapes:
            properties = {name: value.replace(escape, character) for name, value in properties.items()}
        found.append((parts[1], properties, parts[3]))
    return found


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a file next to the tests, one in a package, and a library in a virtual environment within."""
    for path in ("tests/mps model.py", "src/mine/net.py", ".venv/lib/site-packages/lib/net.py", "top.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(MODEL, encoding="utf-8")
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    monkeypatch.syspath_prepend(str(tmp_path / ".venv/lib/site-packages"))
    return tmp_path


def report_of(sites: list[str], **more: Any) -> CoverageReport:
    one = finding("aten::linalg_eig", "missing", call_sites=sites, source="registration", modules=["head"])
    named = {"name": "tests/mps model.py:make", "architecture": "", "phase": "inference", "dtype": "", "parameters": 0}
    return coverage("2.13.0", [one], **{"workload": named, **more})


def test_lines_are_those_of_the_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sites = ["mps model.py:5", "mine/net.py:4", "lib/net.py:4", "top.py:2", str(repository / "top.py:3"), "gone.py:1"]
    wanted = [("tests/mps%20model.py", 5), ("src/mine/net.py", 4), ("top.py", 2), ("top.py", 3)]
    report = report_of([*sites, "/etc/passwd:1", "../outside.py:1", "no number", "top.py:0", "top.py:\u0661"])
    assert places(sarif(report)) == wanted
    expected = [("tests/mps model.py", "5"), ("src/mine/net.py", "4"), ("top.py", "2"), ("top.py", "3")]
    assert [(one["file"], one["line"]) for _, one, _ in commands(report)] == expected
    monkeypatch.chdir(repository / "tests")  # paths are from the root, wherever one stands
    assert ("src/mine/net.py", 4) in places(sarif(report))


def test_what_has_no_line_is_at_the_workload_and_in_no_file(repository: Path) -> None:
    report = report_of(["transformers/models/bert/modeling_bert.py:164"])
    assert places(sarif(report)) == [("tests/mps%20model.py", 4)]
    [(level, properties, message)] = commands(report)
    assert level == "error" and "file" not in properties
    assert message.startswith("aten::linalg_eig has no MPS kernel on torch 2.13.0.")
    assert message.endswith("Called at modeling_bert.py:164.")
    assert places(sarif(report.model_copy(update={"workload": mixed().workload}))) == [("bert-base", 1)]


def test_a_fingerprint_stays_while_the_code_moves() -> None:
    def prints(report: CoverageReport) -> list[str]:
        return [one["partialFingerprints"]["primaryLocationLineHash"] for one in sarif(report)["results"]]

    report = report_of(["a.py:5"])
    newer = coverage("2.15.0", [report.operators[0].model_dump()], workload=report.workload.model_dump())
    moved = report_of(["a.py:6"])
    assert prints(report) == prints(newer) == prints(moved)
    other = finding("aten::linalg_eigvals", "missing")
    assert prints(coverage("2.13.0", [other], workload=report.workload.model_dump())) != prints(report)


def test_how_bad_each_is_and_what_the_rules_are() -> None:
    run = sarif(mixed())
    levels = {one["ruleId"].partition("/")[0]: one["level"] for one in run["results"]}
    words = {"missing": "error", "unsupported": "error", "fallback": "warning", "unknown": "note", "not-judged": "note"}
    assert levels == words
    assert [one["level"] for one in run["results"]] == sorted(
        (one["level"] for one in run["results"]), key=["error", "warning", "note"].index
    )
    assert run["invocations"] == [{"executionSuccessful": True}]
    assert sarif(failed())["invocations"] == [{"executionSuccessful": False}]
    program = {one["ruleId"] for one in sarif(sample_coverage_report())["results"]}
    assert {"on-the-cpu", "written-for-cuda", "stopped"} < program
    assert {one["ruleId"] for one in sarif(advised())["results"]} == {"advisory"}


def test_what_is_allowed_is_suppressed() -> None:
    report = report_of([], allowed=["aten::linalg_eig"])
    [result] = sarif(report)["results"]
    assert result["suppressions"][0]["kind"] == "external"
    assert (
        AnnotationsExporter().render(report) == CLEAN + "\n" == AnnotationsExporter().render(coverage("2.15.0", NATIVE))
    )


def test_many_releases_and_several_workloads() -> None:
    texts = [one["message"]["text"] for one in sarif(sample_matrix_report())["results"]]
    [said] = [text for text in texts if text.startswith("aten::_ctc_loss")]
    assert said.startswith("aten::_ctc_loss has no MPS kernel on torch 1.12.0-2.13.0 (2 of 3 releases).")
    report = sample_matrix_report()
    whole: list[MatrixCell] = report.releases[-1:]
    quiet = {"releases": whole, "advisories": [], "not_judged": []}
    assert not sarif(report.model_copy(update=quiet))["results"]
    report = sample_several_report()
    run = sarif(report)
    assert "no-report" in {one["ruleId"] for one in run["results"]}
    assert not run["invocations"][0]["executionSuccessful"]
    assert {one["title"] for _, one, _ in commands(report)} == {"mpsprobe sample", "mpsprobe models.py:make"}


def test_hostile_text_stays_text() -> None:
    for text in (*HOSTILE, "::error::x", "a%0A::stop-commands::x", "\n::add-mask::x", "a,line=1::b"):
        one, matrix = hostile_coverage(text), hostile_matrix(text)
        several: dict[str, Any] = {"name": text, "error": text, "hint": text}
        made = SeveralReport.model_validate({"environment": one.environment.model_dump(), "workloads": [several]})
        for report in (one, matrix, made):
            sarif(report)
            assert commands(report)
    report = coverage("2.13.0", [finding("a%b", "missing", reason="100%\r\n::error::no")])
    assert "a%25b has no MPS kernel" in AnnotationsExporter().render(report)
    assert "100%25 ::error::no" in AnnotationsExporter().render(report)
