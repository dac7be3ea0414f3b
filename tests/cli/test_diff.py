"""``mpsprobe diff`` as it is called."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mpsprobe.schemas import Report
from mpsprobe_devkit.testing import run_cli, sample_coverage_report, sample_matrix_report, sample_profile_report


def write(path: Path, report: Report) -> str:
    path.write_text(json.dumps(report.model_dump(mode="python")), encoding="utf-8")
    return str(path)


@pytest.fixture
def old(tmp_path: Path) -> str:
    return write(tmp_path / "old.json", sample_profile_report())


@pytest.fixture
def worse(tmp_path: Path) -> str:
    """The CPU's steps take longer, and one size that ran before no longer does."""
    report = sample_profile_report()
    failure = report.cells[1].failure
    cells = [report.cells[0].model_copy(update={"failure": failure}), *report.cells[1:]]
    return write(tmp_path / "worse.json", report.model_copy(update={"cells": cells}))


def test_a_regression_ends_with_1_only_if_asked(old: str, worse: str) -> None:
    for arguments, code in (((), 0), (("--fail-on", "regression"), 1)):
        ran = run_cli("diff", old, worse, "--format", "json", *arguments, process=False)
        assert ran.code == code, ran.stderr
        report = json.loads(ran.stdout)
        assert report["kind"] == "comparison" and report["regressions"] == 1
        assert report["old"]["source"] == old and report["method"]["threshold"] == 0.02
    assert run_cli("diff", worse, old, "--fail-on", "regression", process=False).code == 0


def test_the_threshold_is_a_percentage(old: str) -> None:
    for given in ("7.5", "7.5%"):
        ran = run_cli("diff", old, old, "--threshold", given, "--format", "json", process=False)
        assert json.loads(ran.stdout)["method"]["threshold"] == 0.075


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--threshold", "-1"], "--threshold takes a percentage"),
        (["--threshold", "nan"], "--threshold takes a percentage"),
        (["--threshold", "much"], "'much'"),
        (["--fail-on", "regresion"], "did you mean 'regression'"),
        (["--format", "tabel"], "did you mean 'table'"),
    ],
)
def test_wrong_use(old: str, arguments: list[str], says: str) -> None:
    ran = run_cli("diff", old, old, *arguments, process=False)
    assert ran.code == 2 and says in ran.stderr and ran.stdout == ""


def test_kinds_that_cannot_be_compared(old: str, tmp_path: Path) -> None:
    coverage = write(tmp_path / "coverage.json", sample_coverage_report())
    ran = run_cli("diff", old, coverage, process=False)
    assert (
        ran.code == 2 and "different kinds" in ran.stderr and "'profile'" in ran.stderr and "'coverage'" in ran.stderr
    )
    odd = tmp_path / "odd.json"
    odd.write_text('{"kind": "weather\\u001b", "schema_version": 7}', encoding="utf-8")
    ran = run_cli("diff", odd, odd, process=False)
    assert ran.code == 2 and "which this mpsprobe does not know" in ran.stderr and "\x1b" not in ran.stderr
    ran = run_cli("diff", tmp_path / "missing.json", old, process=False)
    assert ran.code == 2 and "cannot read" in ran.stderr
    ran = run_cli("diff", "-", "-", process=False)
    assert ran.code == 2 and "one report only" in ran.stderr


def test_it_needs_no_torch(old: str) -> None:
    program = (
        "import sys; from mpsprobe.cli.main import main; code = main(['diff', sys.argv[1], sys.argv[1]]); "
        "sys.exit(code or ('torch was imported' if 'torch' in sys.modules else 0))"
    )
    done = subprocess.run([sys.executable, "-c", program, old], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "No difference beyond noise" in done.stdout or "Too few samples" in done.stdout


def test_every_format_of_a_comparison(old: str, worse: str, tmp_path: Path) -> None:
    for name in ("diff.txt", "diff.md", "diff.csv", "diff.json", "diff.xml", "diff.prom"):
        ran = run_cli("diff", old, worse, "-o", str(tmp_path / name), process=False)
        assert ran.code == 0 and (tmp_path / name).stat().st_size > 100, ran.stderr
    again = run_cli("export", str(tmp_path / "diff.json"), "--to", "markdown", process=False)
    assert again.stdout == (tmp_path / "diff.md").read_text(encoding="utf-8")


def test_coverage_and_matrices(tmp_path: Path) -> None:
    for report in (sample_coverage_report(), sample_matrix_report()):
        path = write(tmp_path / "one.json", report)
        ran = run_cli("diff", path, path, "--format", "json", "--fail-on", "regression", process=False)
        assert ran.code == 0, ran.stderr
        assert json.loads(ran.stdout)["compares"] == report.kind
