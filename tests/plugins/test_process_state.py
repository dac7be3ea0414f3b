"""What is put back after every call of a plugin."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mpsprobe.plugins.process_state import few_things, put_few_back


def test_the_few_things_need_no_more_than_themselves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = few_things()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", "1")
    monkeypatch.delenv("PATH")
    os.umask(0o777)
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    put_few_back(before)
    assert few_things() == before


def test_a_closed_standard_error_is_open_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    before = few_things()
    sys.stderr.close()
    put_few_back(before)
    assert not sys.stderr.closed and sys.stderr.fileno() == 2


def test_what_is_added_to_the_path_stays_behind_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list(sys.path)
    monkeypatch.setattr(sys, "path", list(given))
    before = few_things()
    sys.path[:] = ["/first", *reversed(given[1:]), "/last"]
    put_few_back(before)
    assert sys.path == [*given, "/first", "/last"]


CLOSES = """
import os, sys, tempfile
from mpsprobe.plugins.containment import contained
with contained():
    for number in (0, 1, 2):
        os.close(number)
    kept = [open(os.devnull) for _ in range(4)]  # take the places of the three
print("out", sys.stdin.read())
print("err", file=sys.stderr)
"""


def test_a_closed_descriptor_is_open_again() -> None:
    """In another process: it is that process's own output."""
    found = subprocess.run([sys.executable, "-c", CLOSES], input="in", capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("out in\n", "err\n")
