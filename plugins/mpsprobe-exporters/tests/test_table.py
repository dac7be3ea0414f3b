"""The terminal report at every width and in colours, lines as wide as they are drawn, names broken at their joints."""

from __future__ import annotations

import io
import os
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
from rich.cells import cell_len as measured
from rich.console import Console
from rich.text import Text

from mpsprobe_exporters.document import Column, Document, Names, Section, Table
from mpsprobe_exporters.html.drawing import drawn
from mpsprobe_exporters.markdown import blocks, code
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.table import TableExporter
from mpsprobe_exporters.terminal import screen
from mpsprobe_exporters.terminal.drawing import CODES, LINK, Line, cell_len, coded, fitting, fold_name, text_of
from mpsprobe_exporters.terminal.screen import Screen, on_terminal

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
        assert max(map(measured, TableExporter(width).render(report).splitlines())) <= width


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
    assert re.sub(r"\x1b(\[[0-9;]*m|]8;;.*?\x1b\\)", "", colored).split() == plain.split()
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


letters = st.text(st.sampled_from("ab -·─█…日é"), max_size=30)
styles = st.sampled_from(["", "bold", "green", "bold red", *CODES])


@given(letters)
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


@given(st.lists(st.tuples(letters, styles), max_size=4), st.integers(4, 30))
def test_lines_are_those_of_rich(line: Line, width: int) -> None:
    assert [coded(one, color=False).rstrip() for one in fitting(line, width)] == by_rich(line, width, color=False)
    assert [coded(line, color=True).rstrip()] == by_rich(line, 1000, color=True)


def test_width_comes_from_the_environment_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", no_terminal)
    widths = {"100": 100, "10": screen.NARROWEST, "5000": screen.WIDEST, "x": screen.PIPE_COLUMNS}
    for columns, width in widths.items():
        monkeypatch.setenv("COLUMNS", columns)
        assert on_terminal().width == width


def test_a_pipe_is_as_wide_as_the_terminal_behind_it_and_no_output_is_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "stdout", pipe := io.StringIO())
    for size, width in ((lambda fd: os.terminal_size((90, 24)), 90), (no_terminal, screen.PIPE_COLUMNS)):
        monkeypatch.setattr(os, "get_terminal_size", size)
        assert on_terminal().width == width
    pipe.close()
    for stdout in (pipe, None):
        monkeypatch.setattr(sys, "stdout", stdout)
        assert on_terminal().color is False


def test_encodable_keeps_columns() -> None:
    text = "a · b … ─ \N{REPLACEMENT CHARACTER} 日"
    assert Screen(80).encodable(text) == text
    for encoding in ("ascii", "latin-1", "cp1252"):
        shown = Screen(80, encoding=encoding).encodable(text)
        assert len(shown) == len(text)
        shown.encode(encoding)


@pytest.mark.parametrize("names", [["aten::add", "aten::mul.out", "aten::b"], ["<i>|`x\x1b[31m", "y\ny"]])
def test_a_document_of_names_alone_in_every_drawer(names: list[str]) -> None:
    """As ``kernels list`` makes it: side by side on a screen, and one a line where nothing is a screen's width."""
    document = Document("Kernels", sections=[Section("native", [Names(names)])])
    shown = [one_line(name) for name in names]
    across, below = (text_of(document, Screen(width), everything=True).splitlines() for width in (120, 10_000))
    assert across == ["native", "  " + "  ".join([*(one.ljust(max(map(len, shown))) for one in shown[:-1]), shown[-1]])]
    assert below == ["native", *(f"  {one}" for one in shown)]
    heading, codes = blocks(document)
    assert heading == "### native" and codes == ", ".join(map(code, names))
    page = str(drawn(Names(names)))
    assert page.count("<li>") == len(names) and "<i>" not in page


def test_titles_over_amounts_wrap_where_a_screen_is_narrow_and_amounts_do_not() -> None:
    columns = (Column("torch"), *(Column(title, "number") for title in ("expected to fail", "of them refused")))
    document = Document("Audit", sections=[Section("", [Table(columns, [("2.13.0", 1234, 5)])])])
    wide, narrow = (text_of(document, Screen(width), everything=True).splitlines() for width in (60, 30))
    assert wide[0] == "torch   expected to fail  of them refused" and len(wide) == 3
    assert [line.split() for line in narrow[:2]] == [["torch", "expected", "to", "of", "them"], ["fail", "refused"]]
    assert narrow[-1].split() == wide[-1].split() == ["2.13.0", "1,234", "5"] and max(map(len, narrow)) <= 30


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


def test_print_shows_the_table_and_repr_the_headline() -> None:
    from mpsprobe_devkit.testing.samples import sample_reports

    report = sample_reports()["coverage"]
    assert "What to do" in str(report) and len(repr(report)) < 400
    assert repr(report).startswith("<CoverageReport: ")


def test_a_line_of_a_library_is_a_link_where_colours_are() -> None:
    line = [("at ", ""), ("conv.py:3", f"{LINK}https://github.com/x")]
    assert coded(line, color=True) == "at \x1b]8;;https://github.com/x\x1b\\conv.py:3\x1b]8;;\x1b\\"
    assert coded(line, color=False) == "at conv.py:3"
