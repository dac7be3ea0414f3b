"""What is put back after every call of a plugin."""

from __future__ import annotations

import io
import os
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
