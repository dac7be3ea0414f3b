"""The words of advisories, decided on the native device in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).parents[2] / "knowledge/advisories/word_cases.py"


def test_each_word_is_decided_right(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", str(CASES), "wrong.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "wrong.json").read_text()) == []
