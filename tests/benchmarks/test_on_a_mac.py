"""Predictions against a Mac, where the native virtual device stands in: only what it computes rightly differs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT

SCRIPT = ROOT / "benchmarks" / "on_a_mac.py"
RAISES, RUNS = "linalg.eig", "tanh"


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_mps_it_says_so_and_is_not_red() -> None:
    import torch

    if not torch.backends.mps.is_available():
        assert run() == "There is no MPS on this machine: nothing was compared.\n"


@pytest.mark.thorough
def test_differences_are_lines_of_which_each_new_one_is_marked(tmp_path: Path) -> None:
    output = tmp_path / "differences.json"
    asked = ["--models", "distilbert", "--entries", RAISES, RUNS, "--advisories", "gelu-strided", "conv-strided-weight"]
    printed = run("--device", "virtual", "-o", str(output), *asked)
    wrong = "advisories: conv-strided-weight is right here, and was predicted to be the other"  # no bugs are computed
    lines = [one["text"] for one in json.loads(output.read_text(encoding="utf-8"))["differences"]]
    assert wrong in lines and f"NEW {wrong}\n" in printed and f"{len(lines)} differences" in printed
    assert not [one for one in lines if "gelu" in one or RAISES in one or "ended" in one or "verify" in one]
    assert "not tried" in run("--device", "virtual", "--minutes", "0", *asked)
