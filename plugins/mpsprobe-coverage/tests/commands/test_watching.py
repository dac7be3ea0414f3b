"""``coverage --watch``: each save of the file or of what it imports is a new picture, and no error ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mpsprobe_coverage.commands import watching
from mpsprobe_coverage.commands.judge import Judging
from mpsprobe_devkit.testing import run_cli

FILE = """import torch
from parts import block

def make():
    return torch.nn.Sequential(block.Block(), torch.nn.Linear(4, 4)), torch.rand(2, 4)
"""
BLOCK = """import torch

class Block(torch.nn.Module):
    def forward(self, x):
        return {}
"""


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], list[str]]:
    """What is drawn of a file whose helper is saved with each of some texts, until Ctrl-C."""

    def watched(saves: list[str]) -> list[str]:
        file, helper = tmp_path / "model.py", tmp_path / "parts" / "block.py"
        helper.parent.mkdir()
        file.write_text(FILE)
        helper.write_text(BLOCK.format("x.relu()"))
        left: Iterator[str] = iter(saves)
        shown: list[str] = []

        def save(_seconds: float) -> None:
            text = next(left, None)
            if text is None:
                raise KeyboardInterrupt
            helper.write_text(text)

        def drawn(text: str, **_more: Any) -> str:
            shown.append(text)
            return ""

        monkeypatch.setattr(watching, "is_terminal", lambda: True)
        monkeypatch.setattr(watching.Text, "from_ansi", drawn)
        monkeypatch.setattr(time, "sleep", save)
        watching.watch(f"{file}:make", Judging.of_flags({"torch_release": "2.13.0"}))
        return shown

    return watched


def test_each_save_is_a_picture(pictures: Callable[[list[str]], list[str]]) -> None:
    first, missing, wrong, raising, again = pictures([
        BLOCK.format("x + torch.linalg.eigvals(x.T @ x).real"),
        BLOCK.format("x +"),
        BLOCK.format("print('here', x.shape) or 1 / 0"),
        BLOCK.format("x.tanh()"),
    ])  # fmt: skip
    assert "native" in first and "missing" not in first
    assert "has no MPS kernel" in missing and "native, 1 missing" in missing and "block.py:5" in missing
    assert "SyntaxError" in wrong and "block.py" in wrong
    assert "ZeroDivisionError" in raising and "here torch.Size([2, 4])" in raising
    assert "2 of 2 operators" in again


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bert-base"], "--watch is about a file that you edit"),
        (["model.py:make"], "--watch draws on a terminal"),
        (["model.py:make", "bert-base"], "--watch shows one workload"),
        (["model.py:make", "-o", "report.json"], "--watch shows one workload"),
    ],
)
def test_where_it_makes_no_sense_it_is_refused(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    result = run_cli("coverage", "--watch", *arguments, process=False)
    assert result.code == 2 and said in result.stderr
