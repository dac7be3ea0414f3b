"""What a report does not prove is in its headline, fails a build, and is never "nothing needs doing"."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe_devkit.testing import run_cli

MODELS = """
import torch


class Branch(torch.nn.Linear):
    def forward(self, x):
        x = super().forward(x)
        if x.abs().max() > 1:
            x = torch.linalg.eigvals(x).abs()
        return x


def branch():
    return Branch(4, 4), torch.ones(4, 4)


def stops():
    return torch.nn.Sequential(torch.nn.Linear(4, 15), torch.nn.Linear(4, 2)), torch.ones(4, 4)
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("word", ["assumed", "unknown"])
def test_a_guessed_branch_fails_and_says_where(models: Path, word: str) -> None:
    ended = run_cli("coverage", "models.py:branch", "--fail-on", word, "-o", "r.html", process=False)
    assert (ended.code, ended.stdout) == (1, "")
    headline, wrote, reason = ended.stderr.splitlines()
    assert (
        "values were guessed at models.py:8, and others may take another path" in headline and wrote == "wrote r.html"
    )
    assert reason.startswith("--fail-on: values were guessed") and "models.py:8" in reason
    assert (
        run_cli("coverage", "models.py:branch", "--fail-on", "missing,memory", "--memory", "8GB", process=False).code
        == 0
    )
    allowed = ("--fail-on", word, "--allow", "_local_scalar_dense")
    assert run_cli("coverage", "models.py:branch", *allowed, process=False).code == 0


def test_with_values_nothing_is_guessed(models: Path) -> None:
    ended = run_cli("coverage", "models.py:branch", "--weights", "--fail-on", "assumed", process=False)
    assert ended.code == 0 and "guess" not in ended.stdout


def test_of_several_each_row_says_why(models: Path) -> None:
    ended = run_cli("coverage", "models.py:branch", "models.py:stops", "--jobs", "1", "-o", "r.md", process=False)
    assert ended.code == 2
    assert "0 of 2 workloads have every operator native; 1 rests on a guess; 1 could not be judged" in ended.stderr
    page = (models / "r.md").read_text(encoding="utf-8")
    assert "guessed at models.py:8" in page and "RuntimeError: a and b must have same reduction dim" in page


def test_more_memory_than_the_mac_has_does_not_fit(models: Path) -> None:
    ended = run_cli("coverage", "bert-base", "--memory", "1GB", "--fail-on", "memory", "-o", "r.json", process=False)
    assert ended.code == 1
    assert ended.stderr.startswith("Does not fit on a Mac with 1 GB: it takes 1.1 GB, 8.4 MB more than the Mac has")
    assert "--fail-on: it takes 1,082,130,432 bytes of memory, and the Mac has 1,073,741,824" in ended.stderr
