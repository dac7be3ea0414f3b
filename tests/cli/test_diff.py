"""``mpsprobe diff`` as it is called."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mpsprobe_devkit.testing import run_cli, sample_reports


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every sample report as KIND.json; in ``worse.json`` one size that ran before no longer does. The working folder.

    Others: ``odd.json`` is of a kind that nobody knows.
    """
    reports = sample_reports()
    cells = reports["profile"].cells
    failed = cells[0].model_copy(update={"failure": cells[1].failure})
    reports["worse"] = reports["profile"].model_copy(update={"cells": [failed, *cells[1:]]})
    for name, report in reports.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(report.model_dump(mode="python")), encoding="utf-8")
    (tmp_path / "odd.json").write_text('{"kind": "weather\\u001b", "schema_version": 7}', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_regression_ends_with_1_only_if_asked() -> None:
    for arguments, code in (((), 0), (("--fail-on", "regression"), 1)):
        ran = run_cli("diff", "profile.json", "worse.json", "--format", "json", *arguments, process=False)
        assert ran.code == code, ran.stderr
        report = json.loads(ran.stdout)
        assert report["kind"] == "comparison" and report["regressions"] == 1
        assert report["old"]["source"] == "profile.json" and report["method"]["threshold"] == 0.02
    assert run_cli("diff", "worse.json", "profile.json", "--fail-on", "regression", process=False).code == 0


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("kind", ["profile", "coverage", "coverage-matrix"])
def test_a_report_is_no_regression_from_itself(kind: str) -> None:
    for threshold in ("7.5", "7.5%"):
        more = ("--format", "json", "--fail-on", "regression", "--threshold", threshold)
        report = run_cli("diff", f"{kind}.json", f"{kind}.json", *more, process=False).json()
        assert report["compares"] == kind
        assert kind != "profile" or report["method"]["threshold"] == 0.075


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("profile.json profile.json --threshold -1", "--threshold takes a percentage"),
        ("profile.json profile.json --threshold nan", "--threshold takes a percentage"),
        ("profile.json profile.json --threshold much", "'much'"),
        ("profile.json profile.json --fail-on regresion", "did you mean 'regression'"),
        ("profile.json profile.json --format tabel", "did you mean 'table'"),
        ("profile.json coverage.json", "profile.json is a 'profile' and coverage.json is a 'coverage'"),
        ("odd.json odd.json", "which this mpsprobe does not know"),
        ("missing.json profile.json", "cannot read"),
        ("- -", "one report only"),
    ],
)
def test_wrong_use(line: str, says: str) -> None:
    ran = run_cli("diff", *line.split(), process=False)
    assert ran.code == 2 and says in ran.stderr and ran.stdout == "" and "\x1b" not in ran.stderr


@pytest.mark.usefixtures("folder")
def test_it_needs_no_torch() -> None:
    program = (
        "import sys; from mpsprobe.cli.main import main; code = main(['diff', 'profile.json', 'profile.json']); "
        "sys.exit(code or ('torch was imported' if 'torch' in sys.modules else 0))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "No difference beyond noise" in done.stdout or "Too few samples" in done.stdout


def test_every_format_of_a_comparison(folder: Path) -> None:
    for name in ("diff.txt", "diff.md", "diff.csv", "diff.json", "diff.xml", "diff.prom"):
        ran = run_cli("diff", "profile.json", "worse.json", "-o", name, process=False)
        assert ran.code == 0 and (folder / name).stat().st_size > 100, ran.stderr
    again = run_cli("export", "diff.json", "--to", "markdown", process=False)
    assert again.stdout == (folder / "diff.md").read_text(encoding="utf-8")
