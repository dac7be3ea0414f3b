"""Plain tables for the ``list`` commands: importing rich would triple their time."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from click.formatting import wrap_text

NARROWEST = 24  # characters of a last column that is wrapped; below it the terminal may as well do it


def aligned(rows: Sequence[Sequence[str]], gap: int = 2, width: int | None = None) -> str:
    """``rows`` with each column as wide as its widest cell; the last one is not padded.

    Args:
        width: of the terminal: the last column is wrapped to it, under itself; ``None`` for lines of any length.
    """
    if not rows:
        return ""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    left = sum(widths[:-1]) + gap * (len(widths) - 1)
    lines = []
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        last = row[-1]
        if width is not None and width - left >= NARROWEST:
            last = wrap_text(last, width - left).replace("\n", "\n" + " " * left)
        lines.append((" " * gap).join([*padded, last]).rstrip())
    return "\n".join(lines)


def terminal_width() -> int | None:
    """Columns of the terminal that standard output goes to; ``None`` where it goes to a file or a pipe."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def format_option() -> click.Option:
    """``--format table|json``, the same for every command that lists."""
    return click.Option(
        ["--format", "format_name"],
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="Of the list on standard output.",
    )
