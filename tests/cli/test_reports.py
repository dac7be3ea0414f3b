"""Reports in files: ``mpsprobe export`` and ``diff``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mpsprobe_devkit.testing import CommandResult, install_plugin, run_cli, sample_reports
from tests.thin import thin

EXPORTERS = """[
    made("kind", kinds=("coverage", "weather")), made("raw", binary=True),
    *map(made, ("bad", "odd", "chatty", "drawn", "brief")),
]"""
PLUGIN = thin(
    "def made(name, **more):\n"
    "    return ExporterDeclaration(name, f'kind_exporters:{name.title()}', 'x', f'.{name}', **more)",
    exporters=EXPORTERS,
)
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
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Every sample report as KIND.json, ``worse.json``, where a size no longer runs, and files that are wrong."""
    install_plugin(tmp_path, "kinds", PLUGIN, modules={"kind_exporters.py": MODULE})
    reports = sample_reports()
    cells = reports["profile"].cells
    failed = cells[0].model_copy(update={"failure": cells[1].failure})
    reports["worse"] = reports["profile"].model_copy(update={"cells": [failed, *cells[1:]]})
    damaged = json.loads(reports["coverage"].model_dump_json())
    damaged["summary"]["calls"] = -1
    texts = {f"{name}.json": report.model_dump_json() for name, report in reports.items()}
    texts |= {"damaged.json": json.dumps(damaged), "broken.json": "{", "no-report.json": "[]", "kept.kind": "old"}
    texts["odd.json"] = '{"kind": "odd\\u001b", "schema_version": 7}'
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def _export(folder: Path, *arguments: str, stdin: str = "") -> CommandResult:
    ours = ("-p", "no:exporters", "export", *arguments)
    return run_cli(*ours, stdin=stdin, plugin_folders=[folder], cwd=folder, process=False)


def _diff(folder: Path, *arguments: str) -> CommandResult:
    return run_cli("diff", *arguments, cwd=folder, process=False)


def test_export_to_standard_output(folder: Path) -> None:
    for asked, stdout, stderr in (
        ("kind", "coverage of version 1", ""),
        ("chatty", "coverage of version 1", "working on it\n"),
        ("drawn", "drawn coverage of version 1", ""),
        ("drawn --all", "drawn coverage of version 1", ""),
        ("brief", "in short", ""),
        ("brief --all", "all of it", ""),
    ):
        shown = _export(folder, "coverage.json", "--to", *asked.split())
        assert (shown.code, shown.stdout, shown.stderr) == (0, f"{stdout}\n", stderr)


def test_export_to_a_file(folder: Path) -> None:
    for source, arguments, content in (
        ("weather.json", ["-o", "out.kind"], b"weather of version 7"),
        ("coverage.json", ["-o", "out.drawn"], b"coverage of version 1"),
        ("-", ["--to", "raw", "-o", "x"], b"\x00coverage"),
    ):
        given = (folder / "coverage.json").read_text(encoding="utf-8")
        written = _export(folder, source, *arguments, stdin=given)
        assert (written.code, written.stdout, written.stderr) == (0, "", "")
        assert (folder / arguments[-1]).read_bytes() == content


def test_what_cannot_be_exported_is_told_in_words(folder: Path) -> None:
    before = sorted(folder.iterdir())
    for line, problem in (
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
    ):
        result = _export(folder, *line.split())
        assert result.code == 2 and problem in result.stderr and "Traceback" not in result.stderr
        assert [one for one in sorted(folder.iterdir()) if one.name != "__pycache__"] == before
        assert (folder / "kept.kind").read_text() == "old"


def test_export_without_exporters_says_what_to_install(folder: Path) -> None:
    result = run_cli("-p", "no:*", "export", "coverage.json", "--to", "kind", cwd=folder, process=False)
    assert result.code == 2 and "mpsprobe-exporters" in result.stderr


def test_a_regression_ends_with_1_only_if_asked(folder: Path) -> None:
    for arguments, code in (((), 0), (("--fail-on", "regression"), 1)):
        ran = _diff(folder, "profile.json", "worse.json", "--format", "json", *arguments)
        assert ran.code == code and ran.stderr.startswith("--fail-on: regressions, 1") == (code == 1), ran.stderr
        report = json.loads(ran.stdout)
        assert report["kind"] == "comparison" and report["regressions"] == 1
        assert report["old"]["source"] == "profile.json" and report["method"]["threshold"] == 0.02
    assert _diff(folder, "worse.json", "profile.json", "--fail-on", "regression").code == 0


@pytest.mark.parametrize("kind", ["profile", "coverage", "coverage-matrix"])
def test_a_report_is_no_regression_from_itself(folder: Path, kind: str) -> None:
    for threshold in ("7.5", "7.5%"):
        more = ("--format", "json", "--fail-on", "regression", "--threshold", threshold)
        report = _diff(folder, f"{kind}.json", f"{kind}.json", *more).json()
        assert report["compares"] == kind
        assert kind != "profile" or report["method"]["threshold"] == 0.075


def test_what_cannot_be_compared_is_told_in_words(folder: Path) -> None:
    for line, says in (
        ("profile.json profile.json --threshold -1", "--threshold takes a percentage"),
        ("profile.json profile.json --threshold nan", "--threshold takes a percentage"),
        ("profile.json profile.json --threshold much", "'much'"),
        ("profile.json profile.json --fail-on regresion", "did you mean 'regression'"),
        ("profile.json profile.json --format tabel", "did you mean 'table'"),
        ("profile.json coverage.json", "profile.json is a 'profile' and coverage.json is a 'coverage'"),
        ("odd.json odd.json", "which this mpsprobe does not know"),
        ("missing.json profile.json", "cannot read"),
        ("- -", "one report only"),
    ):
        ran = _diff(folder, *line.split())
        assert ran.code == 2 and says in ran.stderr and ran.stdout == "" and "\x1b" not in ran.stderr


def test_every_format_of_a_comparison(folder: Path) -> None:
    for name in ("diff.txt", "diff.md", "diff.csv", "diff.json", "diff.xml", "diff.prom"):
        ran = _diff(folder, "profile.json", "worse.json", "-o", name)
        assert ran.code == 0 and (folder / name).stat().st_size > 100, ran.stderr
    again = run_cli("export", "diff.json", "--to", "markdown", cwd=folder, process=False)
    assert again.stdout == (folder / "diff.md").read_text(encoding="utf-8")


def test_diff_needs_neither_torch_nor_transformers(folder: Path) -> None:
    program = (
        "import sys; from mpsprobe.cli.main import main; codes = [main(line.split()) for line in sys.argv[1:]]; "
        "assert not {'torch', 'transformers'} & set(sys.modules); sys.exit(max(codes))"
    )
    command = [sys.executable, "-c", program, "diff profile.json profile.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "No difference beyond noise" in done.stdout or "Too few samples" in done.stdout
