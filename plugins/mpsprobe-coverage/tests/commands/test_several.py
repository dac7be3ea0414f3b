"""``mpsprobe coverage`` on several workloads: one table and one exit code, whatever becomes of one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mpsprobe.errors import UsageError
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.commands import several
from mpsprobe_coverage.commands.child import Child
from mpsprobe_devkit.testing import run_cli

MODELS = """
import os, sys, time
import torch


def clean():
    return torch.nn.Linear(2, 2), torch.ones(1, 2)


def missing():
    return lambda_module(torch.linalg.eig), torch.eye(2)


def lambda_module(function):
    class Net(torch.nn.Module):
        def forward(self, x):
            return function(x)
    return Net()


def raises():
    raise LookupError("no weights here")


def breaks():
    def function(x):
        raise ValueError("no such shape")
    return lambda_module(function), torch.eye(2)


def dies():
    os._exit(7)


def waits():
    print("ready", file=sys.stderr, flush=True)
    time.sleep(300)
"""
FILE = """\ufeff# what we ship
models.py:clean
models.py:missing  # has no kernel up to now

models.py:raises
models.py:dies
models.py:breaks
models.py:clean
"""
EXPORTS = ("json", "markdown", "csv", "html", "junit", "prometheus", "sarif", "annotations")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    (tmp_path / "all.txt").write_text(FILE, encoding="utf-8")
    return tmp_path


def _coverage(folder: Path, *arguments: str, torch: str = "2.13.0") -> Any:
    return run_cli("coverage", *arguments, "--torch", torch, cwd=folder, process=False)


@pytest.mark.slow
def test_one_that_fails_costs_its_row_alone(folder: Path) -> None:
    exports = [text for name in EXPORTS for text in ("--export", f"{name}=out/{name}")]
    (folder / "out").mkdir()
    result = _coverage(folder, "--workloads", "all.txt", "--jobs", "2", *exports, "--fail-on", "missing")
    assert result.code == 2
    assert "Error: 3 of 5 workloads could not be judged to their end: models.py:raises, models.py:dies" in result.stderr
    text = " ".join(result.stdout.split())
    assert text.startswith("1 of 5 workloads has every operator native; 1 has findings; 3 could not be judged")
    assert "models.py:dies its process ended with exit code 7" in text
    assert all((folder / "out" / name).stat().st_size for name in EXPORTS)
    report = json.loads((folder / "out" / "json").read_text(encoding="utf-8"))
    assert [one["name"].partition(":")[2] for one in report["workloads"]] == [
        "clean",
        "missing",
        "raises",
        "dies",
        "breaks",
    ]
    assert report["complete"] and "LookupError: no weights here" in report["workloads"][2]["error"]
    assert report["workloads"][4]["report"]["failure"]["message"] == "no such shape"


@pytest.mark.thorough
def test_the_exit_code_is_of_all_and_the_allowed_are_passed_over(folder: Path) -> None:
    both = ["models.py:clean", "models.py:missing", "--jobs", "1"]
    failing = _coverage(folder, *both, "--fail-on", "missing", torch="2.11.0,2.13.0")
    assert (failing.code, failing.stderr) == (1, "")
    assert "2.11.0-2.13.0" in failing.stdout and "aten::linalg_eig" in failing.stdout
    passing = _coverage(folder, *both, "--fail-on", "missing", "--allow", "linalg_eig", "--format", "json")
    assert passing.code == 0
    assert passing.json()["workloads"][1]["report"]["allowed"] == ["aten::linalg_eig"]


class Impatient(Child):
    """Gives all but the first hardly any time."""

    asked = 0

    def ask(self, question: str, timeout: float, look: Any = None) -> None:
        Impatient.asked += 1
        super().ask(question, timeout if Impatient.asked == 1 else 0.01, look)


@pytest.mark.slow
def test_one_that_takes_too_long_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "Child", Impatient)
    monkeypatch.setattr(Impatient, "asked", 0)
    result = _coverage(folder, "models.py:clean", "models.py:waits", "--jobs", "1")
    assert result.code == 2 and "it took longer than 0.01 s" in result.stdout
    assert "1 of 2 workloads has every operator native" in result.stdout


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SilentProgress, "advance", interrupted)
    result = _coverage(folder, "models.py:clean", "models.py:waits", "--jobs", "1", "-o", "report.json")
    assert (result.code, result.stderr.splitlines()[1:]) == (130, ["wrote report.json"])
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert not report["complete"] and [one["name"] for one in report["workloads"]] == ["models.py:clean"]


def test_patterns_and_files_name_each_workload_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    registry = get_registry()
    assert several.names(["bert-*", "bert-base"], ["all.txt"], registry) == [
        *("bert-base", "bert-large"),
        *(f"models.py:{name}" for name in ("clean", "missing", "raises", "dies", "breaks")),
    ]
    types = several.names(["hf:*bert*"], [], registry)
    assert {"hf:bert", "hf:modernbert"} <= set(types) and all("bert" in name for name in types)
    assert {"hf:bert/BertModel", "hf:bert/BertForMaskedLM"} <= {*several.names(["hf:bert/*"], [], registry)}
    (folder / "a[1].py").touch()
    assert several.names(["a[1].py:make"], [], registry) == ["a[1].py:make"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read w.txt: No such file"),
        (b"# nothing\n\n", "w.txt names no workload"),
        (b"\xff\xfe\x00", "w.txt is not text"),
        (b"no-such-*\n", "no workload fits 'no-such-*'"),
    ],
)
def test_files_that_name_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: bytes | None, message: str
) -> None:
    monkeypatch.chdir(folder)
    if text is not None:
        (folder / "w.txt").write_bytes(text)
    with pytest.raises(UsageError, match="^" + message.replace("*", r"\*")) as caught:
        several.names([], ["w.txt"], get_registry())
    assert caught.value.hint


def test_a_device_names_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_char_device", lambda _: True)
    with pytest.raises(UsageError, match="is a device, not a file"):
        several.names([], ["w.txt"], get_registry())
