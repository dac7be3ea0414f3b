"""What the terminal can show: how wide it is, whether it has colours, which characters its encoding has."""

from __future__ import annotations

import io
import os
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

NARROWEST, WIDEST = 40, 160
PIPE_COLUMNS = 100
# What the tables are drawn with, and what stands for it where the encoding lacks it.
SUBSTITUTES = str.maketrans({"·": "-", "…": "~", "─": "-", "\N{REPLACEMENT CHARACTER}": "?"})


@dataclass(frozen=True, slots=True)
class Screen:
    """Where the text will be read. ``width`` is in columns."""

    width: int
    color: bool = False
    encoding: str = "utf-8"

    def console(self) -> Console:
        """A console that draws for this screen, into nothing: capture what it prints."""
        from rich.console import Console

        return Console(
            file=io.StringIO(),
            width=max(self.width, NARROWEST),
            force_terminal=self.color,
            color_system="standard" if self.color else None,
            no_color=not self.color,
            legacy_windows=False,
            emoji=False,
            markup=False,
            highlight=False,
        )

    def encodable(self, text: str) -> str:
        """``text`` in characters that the encoding has."""
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            return text.translate(SUBSTITUTES).encode(self.encoding, "replace").decode(self.encoding)
        return text


def on_terminal() -> Screen:
    """The screen behind standard output, as the environment tells it (``NO_COLOR``, ``COLUMNS``, ``TERM``)."""
    stream = sys.stdout
    terminal = stream is not None and stream.isatty()
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown")
    return Screen(min(_columns(terminal), WIDEST), color, getattr(stream, "encoding", None) or "utf-8")


def _columns(terminal: bool) -> int:
    if terminal or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    try:  # piped into a pager: the terminal is still behind standard error
        return os.get_terminal_size(sys.__stderr__.fileno()).columns  # type: ignore[union-attr]
    except (OSError, ValueError, AttributeError):
        return PIPE_COLUMNS
