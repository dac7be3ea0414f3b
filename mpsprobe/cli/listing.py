"""Plain tables for the ``list`` commands: importing rich would triple their time."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mpsprobe.streams import columns

NARROWEST = 24  # characters of a last column that is wrapped; below it the terminal may as well do it
GAP = "  "  # between columns
BELOW = 4  # where a last column begins that has no room next to the others


def aligned(rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """``rows`` with each column as wide as its widest cell.

    Within a ``width`` the last column is wrapped, under itself, or below the others where they leave it no room.
    """
    if not rows:
        return ""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    left = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
    lines = []
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        pieces = [row[-1]]
        if width is not None and width - BELOW >= NARROWEST:
            longest = max(map(len, row[-1].split()), default=0)
            below = width - left < max(NARROWEST, min(longest, width - BELOW))
            margin = " " * (BELOW if below else left)
            pieces = [""] * below + wrapped(row[-1], width - len(margin))
            pieces = pieces[:1] + [margin + piece for piece in pieces[1:]]
        lines += [GAP.join([*padded, *pieces[:1]]).rstrip(), *pieces[1:]]
    return "\n".join(lines)


def wrapped(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width``, broken between words only."""
    import textwrap

    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False, replace_whitespace=False)


def terminal_width() -> int | None:
    """Columns of the terminal that standard output goes to; ``None`` where it goes to a file or a pipe."""
    return None if sys.stdout is None or not sys.stdout.isatty() else columns()
