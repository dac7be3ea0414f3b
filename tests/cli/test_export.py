"""``mpsprobe export``: a report in, something else out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpsprobe_devkit.testing import install_plugin, run_cli, sample_reports

ONLY = ["-p", "no:exporters"]
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


def test_to_standard_output_and_to_a_file_by_its_extension(folder: Path) -> None:
    shown = run_cli(
        *ONLY, "export", "coverage.json", "--to", "kind", plugin_folders=[folder], cwd=folder, process=False
    )
    assert (shown.code, shown.stdout) == (0, "coverage of version 1\n")
    written = run_cli(
        *ONLY, "export", "weather.json", "-o", "out.kind", plugin_folders=[folder], cwd=folder, process=False
    )
    assert (written.code, written.stdout, written.stderr) == (0, "", "")
    assert (folder / "out.kind").read_text() == "weather of version 7"


def test_what_an_exporter_prints_is_no_data(folder: Path) -> None:
    shown = run_cli(
        *ONLY, "export", "coverage.json", "--to", "chatty", plugin_folders=[folder], cwd=folder, process=False
    )
    assert (shown.code, shown.stdout, shown.stderr) == (0, "coverage of version 1\n", "working on it\n")


def test_an_exporter_may_draw_for_standard_output(folder: Path) -> None:
    shown = run_cli(
        *ONLY, "export", "coverage.json", "--to", "drawn", plugin_folders=[folder], cwd=folder, process=False
    )
    assert shown.stdout == "drawn coverage of version 1\n"
    run_cli(*ONLY, "export", "coverage.json", "-o", "out.drawn", plugin_folders=[folder], cwd=folder, process=False)
    assert (folder / "out.drawn").read_text() == "coverage of version 1"


@pytest.mark.parametrize(
    ("name", "more", "shown"),
    [("brief", [], "in short"), ("brief", ["--all"], "all of it"), ("drawn", ["--all"], "drawn coverage of version 1")],
)
def test_a_terminal_shows_all_on_request(folder: Path, name: str, more: list[str], shown: str) -> None:
    asked = ("export", "coverage.json", "--to", name, *more)
    drawn = run_cli(*ONLY, *asked, plugin_folders=[folder], cwd=folder, process=False)
    assert drawn.stdout == f"{shown}\n"


def test_from_standard_input(folder: Path) -> None:
    report = (folder / "coverage.json").read_text(encoding="utf-8")
    result = run_cli(
        *ONLY, "export", "-", "--to", "raw", "-o", "x", stdin=report, plugin_folders=[folder], cwd=folder, process=False
    )
    assert result.code == 0, result.stderr
    assert (folder / "x").read_bytes() == b"\x00coverage"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["coverage.json"], "which format?\nSay --to NAME"),
        (["coverage.json", "-o", "out.unknown"], "There are: kind, raw, bad, odd, chatty, drawn, brief"),
        (["coverage.json", "--to", "knid"], "unknown exporter 'knid'; did you mean 'kind'?"),
        (["coverage-matrix.json", "--to", "kind"], "reads coverage, weather; this report is a 'coverage-matrix'"),
        (["none.json", "--to", "kind"], "cannot read none.json"),
        ([".", "--to", "kind"], "cannot read ."),
        (["broken.json", "--to", "kind"], "broken.json is not JSON"),
        (["no-report.json", "--to", "kind"], "is not a report: it has no 'kind'"),
        (["coverage.json", "--to", "kind", "-o", "."], "it is a folder"),
        (["coverage.json", "--to", "kind", "-o", "none/x"], "its folder does not exist"),
        (["coverage.json", "--to", "bad"], "the exporter 'bad' of kinds 1.0 failed: AttributeError"),
        (["coverage.json", "--to", "odd"], "the exporter 'odd' of kinds 1.0 rendered an int, neither text nor bytes"),
    ],
)
def test_what_cannot_work_is_told_in_words(folder: Path, arguments: list[str], problem: str) -> None:
    (folder / "broken.json").write_text("{")
    (folder / "no-report.json").write_text("[]")
    before = sorted(folder.iterdir())
    result = run_cli(*ONLY, "export", *arguments, plugin_folders=[folder], cwd=folder, process=False)
    assert result.code == 2
    assert problem in result.stderr
    assert "Traceback" not in result.stderr
    assert [one for one in sorted(folder.iterdir()) if one.name != "__pycache__"] == before


def test_an_existing_file_survives_a_failure(folder: Path) -> None:
    (folder / "kept.kind").write_text("old")
    damaged = json.loads((folder / "coverage.json").read_text())
    damaged["summary"]["calls"] = -1
    (folder / "damaged.json").write_text(json.dumps(damaged))
    result = run_cli(
        *ONLY, "export", "damaged.json", "-o", "kept.kind", plugin_folders=[folder], cwd=folder, process=False
    )
    assert result.code == 2
    assert "damaged.json is damaged at 'summary.calls'" in result.stderr
    assert (folder / "kept.kind").read_text() == "old"


def test_without_exporters_it_says_what_to_install(folder: Path) -> None:
    result = run_cli(
        "export",
        "coverage.json",
        "--to",
        "kind",
        cwd=folder,
        variables={"MPSPROBE_DISABLE_PLUGINS": "*"},
        process=False,
    )
    assert result.code == 2
    assert "mpsprobe-exporters" in result.stderr
