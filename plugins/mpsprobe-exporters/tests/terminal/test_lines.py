"""Lines are as wide as a terminal draws them, and broken as rich breaks them, which drew the report before."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len as measured
from rich.console import Console
from rich.text import Text

from mpsprobe_exporters.terminal.lines import CODES, Line, cell_len, coded, fitting

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
