"""``mpsprobe coverage`` on models of a few lines: the report, what is printed, and the exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mpsprobe_devkit.testing import run_cli
from mpsprobe_devkit.testing.commands import command_environment


def _coverage(folder: Path, *arguments: str, torch: str = "2.13.0") -> Any:
    return run_cli("coverage", *arguments, "--torch", torch, cwd=folder, process=False)


def test_the_json_document(folder: Path) -> None:
    report = _coverage(folder, "models.py:clean", "--format", "json").json()
    assert (report["kind"], report["schema_version"], report["method"]) == ("coverage", 1, "predicted")
    assert report["workload"]["architecture"] == "Net" and report["workload"]["parameters"] == 20
    assert {one["operator"]: one["calls"] for one in report["operators"]} == {"aten::linear": 1, "aten::tanh": 1}
    assert report["summary"]["operators_by_verdict"] == {"native": 2}
    linear = next(one for one in report["operators"] if one["operator"] == "aten::linear")
    assert linear["modules"] == ["first"] and linear["call_sites"][0].endswith("models.py:12")


def test_the_answer_comes_first_and_progress_goes_nowhere(folder: Path) -> None:
    result = _coverage(folder, "models.py:clean", "--fail-on", "missing,fallback,unsupported,unknown")
    assert (result.code, result.stderr) == (0, "")
    assert "2 of 2 operators native on torch 2.13.0" in "\n".join(result.stdout.splitlines()[:3])
    assert "aten::tanh" not in result.stdout
    assert "aten::tanh" in _coverage(folder, "models.py:clean", "--all").stdout


@pytest.mark.parametrize(
    ("workload", "torch", "gate", "code"),
    [
        ("factors", "2.13.0", "missing,unsupported", 0),
        ("factors", "2.13.0", "fallback", 1),
        ("doubles", "2.13.0", "unsupported", 1),
        ("missing", "2.13.0", "missing,fallback --allow *linalg_*", 0),
        ("late", "1.13.1,2.13.0", "missing", 1),
        ("breaks", "2.13.0", "missing", 2),
    ],
)
def test_exit_codes(folder: Path, workload: str, torch: str, gate: str, code: int) -> None:
    result = _coverage(folder, f"models.py:{workload}", "--fail-on", *gate.split(), torch=torch)
    assert result.code == code and "Traceback" not in result.stderr, result.stderr


def test_explain_names_the_judges_that_were_asked(folder: Path) -> None:
    text = " ".join(_coverage(folder, "models.py:late", "--explain", torch="1.13.1").stdout.split())
    assert "no kernel under MPS and no composite one in the library (asked: dtype, fallback, registration)" in text
    assert "a kernel is registered under MPS (asked: dtype, devices, guard, switches, registration)" in text


def test_every_release_at_once(folder: Path) -> None:
    report = _coverage(folder, "models.py:late", "--format", "json", torch="all").json()
    assert report["kind"] == "coverage-matrix" and report["native_since"] == "2.0.0"
    assert {one["operator"] for one in report["operators"]} == {"aten::linear", "aten::cumsum"}
    releases = [cell["target"]["torch"] for cell in report["releases"]]
    assert releases[0] == "1.12.0" and len(releases) == len(set(releases)) >= 30
    findings = {cell["target"]["torch"]: cell["findings"] for cell in report["releases"]}
    assert findings["1.13.1"] == {"aten::cumsum.out": "missing"} and findings["2.0.0"] == {}


def test_a_model_that_raises_still_has_its_report(folder: Path) -> None:
    result = _coverage(folder, "models.py:breaks", "-o", "report.json")
    assert result.code == 2
    assert "the run stopped: ValueError in forward at models.py:43: no such shape" in result.stderr
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert [one["operator"] for one in report["operators"]] == ["aten::linear"]
    assert report["failure"]["error"] == "ValueError" and report["failure"]["phase"] == "forward"


def test_options_reach_the_report(folder: Path) -> None:
    training = ("--phase", "training", "--grad-accum", "2", "--format", "json")
    report = _coverage(folder, "models.py:factors", *training, torch="2.15.0").json()
    assert (report["workload"]["phase"], report["workload"]["grad_accum"]) == ("training", 2)
    assert {phase for one in report["operators"] for phase in one["phases"]} == {"forward", "backward", "optimizer"}
    sized = ("--batch-size", "7", "--dtype", "float16", "--format", "json")
    report = _coverage(folder, "models.py:clean", *sized, torch="installed").json()
    assert report["workload"]["batch_size"] == 7 and report["operators"][0]["dtypes"] == ["float16"]
    assert report["target"]["torch"] == report["environment"]["torch"].partition("+")[0]


def test_an_export_of_the_report_needs_no_torch(folder: Path) -> None:
    assert _coverage(folder, "models.py:factors", "-o", "report.json").code == 0
    code = "import sys; sys.modules['torch'] = None; from mpsprobe.cli.main import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "export", "report.json", "--to", "markdown"],
        cwd=folder,
        env=command_environment(),
        capture_output=True,
    )
    assert done.returncode == 0 and b"aten::linalg_svd" in done.stdout, done.stderr


@pytest.mark.parametrize("word", ["assumed", "unknown"])
def test_a_guessed_branch_fails_and_says_where(folder: Path, word: str) -> None:
    gate = ("models.py:branch", "--fail-on", word)
    ended = _coverage(folder, *gate, "-o", "r.html")
    assert (ended.code, ended.stdout) == (1, "")
    headline, wrote, reason = ended.stderr.splitlines()
    assert "values were guessed at models.py:37, and others may take another path" in headline
    assert wrote == "wrote r.html"
    assert reason.startswith("--fail-on: values were guessed") and "models.py:37" in reason
    assert _coverage(folder, *gate, "--allow", "_local_scalar_dense").code == 0


def test_a_guess_is_neither_missing_nor_memory_and_with_values_there_is_none(folder: Path) -> None:
    others = ("--fail-on", "missing,memory", "--memory", "8GB")
    assert _coverage(folder, "models.py:branch", *others).code == 0
    ended = _coverage(folder, "models.py:branch", "--weights", "--fail-on", "assumed")
    assert ended.code == 0 and "guess" not in ended.stdout
