"""What is put back after every call of a plugin."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mpsprobe.plugins.process_state import few_things, put_few_back


def test_the_few_things_need_no_more_than_themselves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = few_things()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)
    put_few_back(before)
    assert few_things() == before
