"""The terminal report at every width, with and without colours."""

from __future__ import annotations

import io
import re
import sys
from itertools import product

import pytest
from example_reports import (
    NATIVE,
    coverage,
    examples,
    hostile_coverage,
    hostile_matrix,
    mixed,
    of_releases,
    summary,
    texts,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from mpsprobe_exporters.table import TableExporter

NAMES = ("operators", "workloads", "verdicts")


def test_nothing_is_wider_than_the_screen_or_cut_off() -> None:
    for (name, report), width in product(examples().items(), (40, 60, 80, 100, 120, 160, 200)):
        text = TableExporter(width).render(report)
        assert max(map(len, text.splitlines())) <= width, (name, width)
        if name in ("fit", "ranking", "upgrade"):  # parts of which stand for many
            continue
        named = [one for kind in NAMES for one in getattr(report, kind, [])]
        names = [getattr(one, "operator", getattr(one, "name", "")) for one in named]
        words = [word for one in names for word in re.findall("[A-Za-z0-9]+", one)]
        assert all(word in text for word in words), (name, "names are broken between words only")


@settings(max_examples=25, deadline=None)
@given(texts, st.integers(min_value=40, max_value=200))
def test_no_string_makes_a_line_too_wide(text: str, width: int) -> None:
    for report in (hostile_coverage(text), hostile_matrix(text)):
        assert max(map(cell_len, TableExporter(width).render(report).splitlines())) <= width


def test_thirty_two_releases_fit_into_eighty_columns() -> None:
    counts = summary(NATIVE)
    names = [f"aten::some_operator.overload{index}" for index in range(3)]
    cells = [
        {
            "target": {"torch": f"2.{index}.0"},
            "summary": counts,
            "findings": dict.fromkeys(names[: index % 3], "missing"),
        }
        for index in range(32)
    ]
    text = TableExporter(80).render(of_releases(cells))
    assert max(map(len, text.splitlines())) <= 80
    for index in range(32):
        assert f"2.{index}.0" in text


def test_colors_only_when_asked_for() -> None:
    plain, colored = TableExporter().render(mixed()), TableExporter(color=True).render(mixed())
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored).split() == plain.split()
    used = {int(code) for sequence in re.findall(r"\x1b\[([0-9;]*)m", colored) for code in sequence.split(";")}
    assert used <= {0, 1, 31, 32, 35}, "only what is readable on light and on dark"


class Terminal(io.TextIOWrapper):
    """Standard output that says it is a terminal, in some encoding, or a pipe."""

    def __init__(self, encoding: str = "utf-8", terminal: bool = True) -> None:
        super().__init__(io.BytesIO(), encoding)
        self.isatty = lambda: terminal  # type: ignore[method-assign]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("mpsprobe_exporters.terminal.screen._color_possible", lambda: True)
    return monkeypatch


def test_a_terminal_gets_colors_and_its_width(environment: pytest.MonkeyPatch) -> None:
    environment.setattr(sys, "stdout", Terminal())
    environment.setenv("COLUMNS", "70")
    text = TableExporter().render_for_terminal(coverage("2.15.0", NATIVE), everything=True)
    assert "\x1b[32mnative" in text and max(len(re.sub("\x1b.*?m", "", line)) for line in text.splitlines()) <= 70
    environment.setattr(sys, "stdout", Terminal())
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with environment.context() as one:
            one.setenv(name, value)
            assert "\x1b" not in TableExporter().render_for_terminal(mixed())


def test_no_colors_in_a_pipe_and_no_characters_that_it_lacks(environment: pytest.MonkeyPatch) -> None:
    for encoding in ("cp1252", "ascii"):
        environment.setattr(sys, "stdout", Terminal(encoding, terminal=False))
        text = TableExporter().render_for_terminal(hostile_coverage("日本 x"), everything=True)
        assert "\x1b" not in text and "---" in text and "─" not in text
        text.encode(encoding)
        assert "aten::linalg_qr.out" in TableExporter().render_for_terminal(mixed()), "nothing is lost"
