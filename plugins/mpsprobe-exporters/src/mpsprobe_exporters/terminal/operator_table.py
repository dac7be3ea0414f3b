"""The table of operators: as many columns as the screen has room for, the important ones first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import JustifyMethod

# Readable on black and on white in the usual palettes (yellow is not, nor is dark blue), and never alone:
# the word is there too.
GAP = 2


def new_table(*titles: str, right: tuple[int, ...] = (), wrapped: tuple[int, ...] = ()) -> Table:
    """An empty table in the one style that all tables here have: a rule below the titles, no other lines.

    Args:
        titles: of the columns.
        right: numbers of the columns that are aligned to the right.
        wrapped: numbers of the columns that may be broken to fit; the others keep their width.
    """
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0), header_style="bold")
    for index, title in enumerate(titles):
        justify: JustifyMethod = "right" if index in right else "left"
        made.add_column(title, justify=justify, overflow="fold", no_wrap=index not in wrapped)
    return made
