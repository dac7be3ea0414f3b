"""Plain tables for the ``list`` commands: importing rich would triple their time."""

from __future__ import annotations

from collections.abc import Sequence

import click


def aligned(rows: Sequence[Sequence[str]], gap: int = 2) -> str:
    """``rows`` with each column as wide as its widest cell; the last one is not padded."""
    if not rows:
        return ""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        lines.append((" " * gap).join([*padded, row[-1]]).rstrip())
    return "\n".join(lines)


def format_option() -> click.Option:
    """``--format table|json``, the same for every command that lists."""
    return click.Option(
        ["--format", "format_name"],
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="Of the list on standard output.",
    )
