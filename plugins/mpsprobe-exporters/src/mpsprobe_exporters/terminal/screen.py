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

NARROWEST, WIDEST = 40, 200
PIPE_COLUMNS = 100
# What the report is drawn with, and what stands for it where the encoding lacks it: one column for one.
SUBSTITUTES = str.maketrans(
    {"·": ".", "…": "~", "─": "-", "\N{REPLACEMENT CHARACTER}": "?", "µ": "u", "°": " "}
    | dict.fromkeys("█▉▊▋▌", "#")  # bars: what fills half of a column or more counts as one
    | dict.fromkeys("▍▎▏", ".")
)


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
            width=self.width,
            force_terminal=self.color,
            force_jupyter=False,  # there it would show each print as an output of the cell
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
    """The screen behind standard output, by the environment (``NO_COLOR``, ``COLUMNS``, ``TERM``)."""
    stream = sys.stdout
    terminal = stream is not None and not stream.closed and stream.isatty()
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return Screen(max(NARROWEST, min(_columns(terminal), WIDEST)), terminal and _color_wanted(), encoding)


def _color_wanted() -> bool:
    """Whether a terminal may get colours: https://no-color.org, ``TERM=dumb``, old consoles of Windows."""
    refused = os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown")
    return not refused and _color_possible()


def _color_possible() -> bool:
    if sys.platform == "win32":
        from rich.console import detect_legacy_windows

        return not detect_legacy_windows()
    return True


def _columns(terminal: bool) -> int:
    if terminal or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns
    try:  # piped into a pager: the terminal is still behind standard error
        return os.get_terminal_size(2).columns or PIPE_COLUMNS
    except OSError:
        return PIPE_COLUMNS
