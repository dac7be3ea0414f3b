"""``mpsprobe coverage`` on models of a few lines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mpsprobe_devkit.testing import run_cli
from mpsprobe_devkit.testing.commands import command_environment, command_path

MODELS = """
import torch


class Net(torch.nn.Module):
    def __init__(self, last):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 3), last

    def forward(self, x):
        return self.last(self.first(x))


def clean(batch_size=2):
    return Net(torch.nn.Tanh()), torch.ones(batch_size, 4)


def factors(phase):
    return Net(lambda y: torch.linalg.svd(y)[1].sum()), torch.ones(2, 4)


def late():
    return Net(lambda y: y.cumsum(0)), torch.ones(2, 4)


def doubles():
    return Net(lambda y: y.double()), torch.ones(2, 4)


def breaks():
    def last(y):
        raise ValueError("no such shape")
    return Net(last), torch.ones(2, 4)


def raises():
    raise LookupError("no weights here")


def waits():
    def last(y):
        import sys, time
        print("ready", file=sys.stderr, flush=True)
        time.sleep(60)
    return Net(last), torch.ones(2, 4)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with ``models.py``, the current one of the command."""
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    return tmp_path


def _coverage(folder: Path, *arguments: str, **options: Any) -> Any:
    return run_cli("coverage", *arguments, cwd=folder, process=False, **options)


CONTRACT = {
    "": {"kind", "schema_version", "method", "workload", "target", "environment", "summary", "operators", "not_judged"},
    "workload": {"name", "architecture", "phase", "dtype", "parameters"},
    "target": {"backend", "torch", "macos_minimum", "table"},
    "environment": {"torch", "transformers", "python", "platform"},
    "summary": {"calls", "operators", "calls_by_verdict", "operators_by_verdict"},
}
OPERATOR = {
    "operator", "verdict", "calls", "phases", "dtypes", "modules", "native_since", "call_sites", "input_bytes",
    "output_bytes",
}  # fmt: skip


def test_the_json_document_has_the_keys_of_the_contract(folder: Path) -> None:
    report = _coverage(folder, "models.py:clean", "--torch", "2.13.0", "--format", "json").json()
    assert (report["kind"], report["schema_version"], report["method"]) == ("coverage", 1, "predicted")
    for section, keys in CONTRACT.items():
        assert keys <= set(report[section] if section else report), section
    assert {"wheel", "sha256"} <= set(report["target"]["table"])
    assert all(set(one) >= OPERATOR for one in report["operators"])
    assert report["workload"]["architecture"] == "Net" and report["workload"]["parameters"] == 15
    assert {one["operator"]: one["calls"] for one in report["operators"]} == {"aten::linear": 1, "aten::tanh": 1}
    assert report["summary"]["operators_by_verdict"] == {"native": 2}
    linear = next(one for one in report["operators"] if one["operator"] == "aten::linear")
    assert linear["modules"] == ["first"] and linear["call_sites"][0].endswith("models.py:11")


def test_the_answer_comes_first_and_progress_goes_nowhere(folder: Path) -> None:
    result = _coverage(folder, "models.py:clean", "--torch", "2.13.0")
    assert (result.code, result.stderr) == (0, "")
    assert "2 of 2 operators native on torch 2.13.0" in "\n".join(result.stdout.splitlines()[:3])
    assert "aten::tanh" not in result.stdout
    assert "aten::tanh" in _coverage(folder, "models.py:clean", "--torch", "2.13.0", "--all").stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["models.py:clean"], 0),
        (["models.py:clean", "--fail-on", "missing,fallback,unsupported,unknown"], 0),
        (["models.py:factors"], 0),
        (["models.py:factors", "--fail-on", "missing,unsupported"], 0),
        (["models.py:factors", "--fail-on", "fallback"], 1),
        (["models.py:doubles", "--fail-on", "unsupported"], 1),
        (["models.py:late", "--torch", "1.13.1", "--fail-on", "missing"], 1),
        (["models.py:late", "--torch", "1.13.1,2.13.0", "--fail-on", "missing"], 1),
        (["models.py:breaks"], 2),
        (["models.py:breaks", "--fail-on", "missing"], 2),
    ],
)
def test_exit_codes(folder: Path, arguments: list[str], code: int) -> None:
    torch = [] if "--torch" in arguments else ["--torch", "2.13.0"]
    result = _coverage(folder, *arguments, *torch)
    assert result.code == code, result.stderr
    assert "Traceback" not in result.stderr


def test_explain_names_the_judges_that_were_asked(folder: Path) -> None:
    text = " ".join(_coverage(folder, "models.py:late", "--torch", "1.13.1", "--explain").stdout.split())
    assert "no kernel under MPS and no composite one in the library (asked: dtype, fallback, registration)" in text
    assert "a kernel is registered under MPS (asked: dtype, devices, guard, switches, registration)" in text
    assert "asked" not in _coverage(folder, "models.py:late", "--torch", "1.13.1").stdout


def test_every_release_at_once(folder: Path) -> None:
    report = _coverage(folder, "models.py:late", "--torch", "all", "--format", "json").json()
    assert report["kind"] == "coverage-matrix" and report["native_since"] == "2.0.0"
    releases = [cell["target"]["torch"] for cell in report["releases"]]
    assert releases[0] == "1.12.0" and len(releases) == len(set(releases)) >= 30
    findings = {cell["target"]["torch"]: cell["findings"] for cell in report["releases"]}
    assert findings["1.13.1"] == {"aten::cumsum.out": "missing"} and findings["2.0.0"] == {}


def test_a_model_that_raises_still_has_its_report(folder: Path) -> None:
    result = _coverage(folder, "models.py:breaks", "--torch", "2.13.0", "-o", "report.json")
    assert result.code == 2
    assert "the run stopped: ValueError in forward at models.py:32: no such shape" in result.stderr
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert [one["operator"] for one in report["operators"]] == ["aten::linear"]
    assert report["failure"]["error"] == "ValueError" and report["failure"]["phase"] == "forward"


def test_training_and_options_reach_the_report(folder: Path) -> None:
    report = _coverage(
        folder, "models.py:factors", "--phase", "training", "--torch", "2.15.0", "--grad-accum", "2", "--format", "json"
    ).json()
    assert (report["workload"]["phase"], report["workload"]["grad_accum"]) == ("training", 2)
    assert {phase for one in report["operators"] for phase in one["phases"]} == {"forward", "backward", "optimizer"}
    sized = _coverage(folder, "models.py:clean", "--batch-size", "7", "--torch", "2.13.0", "--format", "json").json()
    assert sized["workload"]["batch_size"] == 7
    half = _coverage(folder, "models.py:clean", "--dtype", "float16", "--torch", "2.13.0", "--format", "json").json()
    assert half["operators"][0]["dtypes"] == ["float16"]


def test_installed_is_what_is_installed(folder: Path) -> None:
    version = _coverage(folder, "models.py:clean", "--format", "json").json()
    assert version["target"]["torch"] == version["environment"]["torch"].partition("+")[0]


def test_an_export_of_the_report_needs_no_torch(folder: Path) -> None:
    assert _coverage(folder, "models.py:factors", "--torch", "2.13.0", "-o", "report.json").code == 0
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from mpsprobe.cli.main import main\n"
        "try:\n    code = main(['export', 'report.json', '--to', 'markdown'])\n"
        "except SystemExit as exit:\n    code = exit.code\n"
        "sys.exit(code or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=command_environment(), capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert b"aten::linalg_svd" in done.stdout


def test_a_closed_pipe_is_quiet(folder: Path) -> None:
    command = [command_path(), "coverage", "models.py:factors", "--torch", "2.13.0"]
    process = subprocess.Popen(
        command, cwd=folder, env=command_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=120)
    assert errors == b""
