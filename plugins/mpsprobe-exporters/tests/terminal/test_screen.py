"""What the terminal can show."""

from __future__ import annotations

import io
import os
import sys

import pytest

from mpsprobe_exporters.terminal import screen
from mpsprobe_exporters.terminal.screen import Screen, on_terminal


def test_width_comes_from_the_environment_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", no_terminal)
    widths = {"100": 100, "10": screen.NARROWEST, "5000": screen.WIDEST, "x": screen.PIPE_COLUMNS}
    for columns, width in widths.items():
        monkeypatch.setenv("COLUMNS", columns)
        assert on_terminal().width == width


def test_a_pipe_is_as_wide_as_the_terminal_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((90, 24)))
    assert on_terminal().width == 90
    monkeypatch.setattr(os, "get_terminal_size", no_terminal)
    assert on_terminal().width == screen.PIPE_COLUMNS


def test_without_standard_output_there_is_still_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert on_terminal().color is False
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    assert on_terminal().color is False


def test_encodable_keeps_columns() -> None:
    text = "a · b … ─ \N{REPLACEMENT CHARACTER} 日"
    assert Screen(80).encodable(text) == text
    for encoding in ("ascii", "latin-1", "cp1252"):
        shown = Screen(80, encoding=encoding).encodable(text)
        assert len(shown) == len(text)
        shown.encode(encoding)


def no_terminal(*_: object) -> os.terminal_size:
    raise OSError("not a terminal")
