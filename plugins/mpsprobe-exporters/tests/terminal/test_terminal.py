"""What the terminal can show: its width, lines as wide as they are drawn, names that are broken at their joints."""

from __future__ import annotations

import io
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len as measured
from rich.console import Console
from rich.text import Text

from mpsprobe_exporters.terminal import screen
from mpsprobe_exporters.terminal.drawing import fold_name
from mpsprobe_exporters.terminal.lines import CODES, Line, cell_len, coded, fitting
from mpsprobe_exporters.terminal.screen import Screen, on_terminal

texts = st.text(st.sampled_from("ab -·─█…日é"), max_size=30)
styles = st.sampled_from(["", "bold", "green", "bold red", *CODES])


@given(texts)
def test_every_character_takes_its_columns(text: str) -> None:
    assert cell_len(text) == measured(text)


def by_rich(line: Line, width: int, color: bool) -> list[str]:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=color, color_system="standard" if color else None,
        no_color=not color, legacy_windows=False,
    )  # fmt: skip
    with console.capture() as drawn:
        console.print(Text.assemble(*line), highlight=False)
    return [one.rstrip() for one in drawn.get().split("\n")][:-1]


@given(st.lists(st.tuples(texts, styles), max_size=4), st.integers(4, 30))
def test_lines_are_those_of_rich(line: Line, width: int) -> None:
    assert [coded(one, color=False).rstrip() for one in fitting(line, width)] == by_rich(line, width, color=False)
    assert [coded(line, color=True).rstrip()] == by_rich(line, 1000, color=True)


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


def test_names_are_broken_at_their_joints() -> None:
    broken = {
        ("", 10): [""],
        ("aten::linear", 12): ["aten::linear"],
        ("aten::linalg_qr.out", 16): ["aten::linalg_qr.", "  out"],
        ("aten::_scaled_dot_product_attention", 20): ["aten::_scaled_dot_", "  product_attention"],
        ("torchvision::nms", 14): ["torchvision::", "  nms"],
        ("BertSelfAttention", 10): ["BertSelf", "  Attentio", "  n"],
        ("aaaaaaaaaaaa", 5): ["aaaaa", "  aaa", "  aaa", "  a"],
    }
    assert {(name, width): fold_name(name, width) for name, width in broken} == broken


@given(st.text(alphabet="ab_.:AB", max_size=60), st.integers(min_value=1, max_value=40))
def test_lines_fit_and_hold_the_name(name: str, width: int) -> None:
    lines = fold_name(name, width)
    assert "".join(line.strip() for line in lines) == name
    assert all(len(line) <= width for line in lines)
