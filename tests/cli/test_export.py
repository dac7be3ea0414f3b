"""``mpsprobe export``: a report in, something else out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpsprobe_devkit.testing import CommandResult, install_plugin, run_cli, sample_reports

PLUGIN = """
from mpsprobe import hookimpl
from mpsprobe.declarations import ExporterDeclaration

@hookimpl
def mpsprobe_exporters():
    return [
        ExporterDeclaration("kind", "kind_exporters:Kind", "Its kind.", ".kind", kinds=("coverage", "weather")),
        ExporterDeclaration("raw", "kind_exporters:raw", "As bytes.", ".raw", binary=True),
        ExporterDeclaration("bad", "kind_exporters:bad", "Raises.", ".bad"),
        ExporterDeclaration("odd", "kind_exporters:odd", "Renders a number.", ".odd"),
        ExporterDeclaration("chatty", "kind_exporters:Chatty", "Prints.", ".chatty"),
        ExporterDeclaration("drawn", "kind_exporters:Drawn", "Knows the terminal.", ".drawn"),
        ExporterDeclaration("brief", "kind_exporters:Brief", "Knows what to leave out.", ".brief"),
    ]
"""
MODULE = """
class Kind:
    def render(self, report):
        return f"{report.kind} of version {report.schema_version}"

class Raw:
    def render(self, report):
        return b"\\x00" + report.kind.encode()

class Bad:
    def render(self, report):
        return report.nothing

class Odd:
    def render(self, report):
        return 7

class Chatty(Kind):
    def render(self, report):
        print("working on it")
        return super().render(report)

class Drawn(Kind):
    def render_for_terminal(self, report):
        return "drawn " + self.render(report)

class Brief(Kind):
    def render_for_terminal(self, report, everything=False):
        return "all of it" if everything else "in short"

raw, bad, odd = Raw(), Bad(), Odd()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with exporters made for these tests, and every sample report as KIND.json."""
    install_plugin(tmp_path, "kinds", PLUGIN, modules={"kind_exporters.py": MODULE})
    for kind, report in sample_reports().items():
        (tmp_path / f"{kind}.json").write_text(report.model_dump_json(), encoding="utf-8")
    return tmp_path


def _run(folder: Path, *arguments: str, stdin: str = "") -> CommandResult:
    ours = ("-p", "no:exporters", "export", *arguments)
    return run_cli(*ours, stdin=stdin, plugin_folders=[folder], cwd=folder, process=False)


@pytest.mark.parametrize(
    ("asked", "stdout", "stderr"),
    [
        ("kind", "coverage of version 1", ""),
        ("chatty", "coverage of version 1", "working on it\n"),
        ("drawn", "drawn coverage of version 1", ""),
        ("drawn --all", "drawn coverage of version 1", ""),
        ("brief", "in short", ""),
        ("brief --all", "all of it", ""),
    ],
)
def test_to_standard_output(folder: Path, asked: str, stdout: str, stderr: str) -> None:
    shown = _run(folder, "coverage.json", "--to", *asked.split())
    assert (shown.code, shown.stdout, shown.stderr) == (0, f"{stdout}\n", stderr)


@pytest.mark.parametrize(
    ("source", "arguments", "content"),
    [
        ("weather.json", ["-o", "out.kind"], b"weather of version 7"),
        ("coverage.json", ["-o", "out.drawn"], b"coverage of version 1"),
        ("-", ["--to", "raw", "-o", "x"], b"\x00coverage"),
    ],
)
def test_to_a_file(folder: Path, source: str, arguments: list[str], content: bytes) -> None:
    given = (folder / "coverage.json").read_text(encoding="utf-8")
    written = _run(folder, source, *arguments, stdin=given)
    assert (written.code, written.stdout, written.stderr) == (0, "", "")
    assert (folder / arguments[-1]).read_bytes() == content


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("coverage.json", "which format?\nSay --to NAME"),
        ("coverage.json -o out.unknown", "There are: kind, raw, bad, odd, chatty, drawn, brief"),
        ("coverage.json --to knid", "unknown exporter 'knid'; did you mean 'kind'?"),
        ("coverage-matrix.json --to kind", "reads coverage, weather; this report is a 'coverage-matrix'"),
        ("none.json --to kind", "cannot read none.json"),
        (". --to kind", "cannot read ."),
        ("broken.json --to kind", "broken.json is not JSON"),
        ("no-report.json --to kind", "is not a report: it has no 'kind'"),
        ("damaged.json -o kept.kind", "damaged.json is damaged at 'summary.calls'"),
        ("coverage.json --to kind -o .", "it is a folder"),
        ("coverage.json --to kind -o none/x", "its folder does not exist"),
        ("coverage.json --to bad", "the exporter 'bad' of kinds 1.0 failed: AttributeError"),
        ("coverage.json --to odd", "the exporter 'odd' of kinds 1.0 rendered an int, neither text nor bytes"),
    ],
)
def test_what_cannot_work_is_told_in_words(folder: Path, line: str, problem: str) -> None:
    damaged = json.loads((folder / "coverage.json").read_text())
    damaged["summary"]["calls"] = -1
    texts = {"damaged.json": json.dumps(damaged), "broken.json": "{", "no-report.json": "[]", "kept.kind": "old"}
    for name, text in texts.items():
        (folder / name).write_text(text)
    before = sorted(folder.iterdir())
    result = _run(folder, *line.split())
    assert result.code == 2 and problem in result.stderr and "Traceback" not in result.stderr
    assert [one for one in sorted(folder.iterdir()) if one.name != "__pycache__"] == before
    assert (folder / "kept.kind").read_text() == "old"


def test_without_exporters_it_says_what_to_install(folder: Path) -> None:
    result = run_cli("-p", "no:*", "export", "coverage.json", "--to", "kind", cwd=folder, process=False)
    assert result.code == 2 and "mpsprobe-exporters" in result.stderr
