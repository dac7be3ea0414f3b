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

FILE = """\ufeff# what we ship
models.py:clean
models.py:missing  # has no kernel up to now

models.py:raises
models.py:dies
models.py:breaks
models.py:branch
models.py:clean
models.py:waits
"""
NAMES = ["clean", "missing", "raises", "dies", "breaks", "branch", "waits"]
EXPORTS = ("json", "markdown", "csv", "html", "junit", "prometheus", "sarif", "annotations")


@pytest.fixture
def folder(folder: Path) -> Path:
    """With a file that names workloads."""
    (folder / "all.txt").write_text(FILE, encoding="utf-8")
    return folder


def _coverage(folder: Path, *arguments: str, torch: str = "2.13.0") -> Any:
    return run_cli("coverage", *arguments, "--torch", torch, cwd=folder, process=False)


class Impatient(Child):
    """Gives one workload hardly any time."""

    def ask(self, question: str, timeout: float, look: Any = None) -> None:
        super().ask(question, 0.01 if "models.py:waits" in question else timeout, look)


@pytest.mark.slow
def test_one_that_fails_costs_its_row_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "Child", Impatient)
    exports = [text for name in EXPORTS for text in ("--export", f"{name}=out/{name}")]
    (folder / "out").mkdir()
    result = _coverage(folder, "--workloads", "all.txt", "--jobs", "2", *exports, "--fail-on", "missing")
    assert result.code == 2
    assert "Error: 4 of 7 workloads could not be judged to their end: models.py:raises, models.py:dies" in result.stderr
    text = " ".join(result.stdout.split())
    counted = "1 of 7 workloads has every operator native; 1 has findings; 1 rests on a guess; 4 could not be judged"
    assert text.startswith(counted)
    assert "models.py:dies its process ended with exit code 7" in text and "it took longer than 0.01 s" in text
    written = {name: (folder / "out" / name).read_text(encoding="utf-8") for name in EXPORTS}
    assert all(written.values())
    assert "guessed at models.py:37" in written["markdown"] and "ValueError: no such shape" in written["markdown"]
    report = json.loads(written["json"])
    assert [one["name"] for one in report["workloads"]] == [f"models.py:{name}" for name in NAMES]
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
    of_file = [f"models.py:{name}" for name in NAMES]
    assert several.names(["bert-*", "bert-base"], ["all.txt"], registry) == ["bert-base", "bert-large", *of_file]
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
        (b"no-such-*\n", r"no workload fits 'no-such-\*'"),
    ],
)
def test_files_that_name_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: bytes | None, message: str
) -> None:
    monkeypatch.chdir(folder)
    if text is not None:
        (folder / "w.txt").write_bytes(text)
    with pytest.raises(UsageError, match="^" + message) as caught:
        several.names([], ["w.txt"], get_registry())
    assert caught.value.hint


def test_a_device_names_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_char_device", lambda _: True)
    with pytest.raises(UsageError, match="is a device, not a file"):
        several.names([], ["w.txt"], get_registry())
