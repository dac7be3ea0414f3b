"""What the terminal can show: how wide it is, whether it has colours, which characters its encoding has."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

NARROWEST, WIDEST = 40, 200
PIPE_COLUMNS = 100
# What the report is drawn with, and what stands for it where the encoding lacks it: one column for one.
SUBSTITUTES = str.maketrans(
    {"·": ".", "…": "~", "─": "-", "\N{REPLACEMENT CHARACTER}": "?", "µ": "u", "°": " "}
    | dict.fromkeys("█▉▊▋▌", "#")  # bars: what fills half of a column or more counts as one
    | dict.fromkeys("▍▎▏", ".")
)


class Screen(NamedTuple):
    width: int
    color: bool = False
    encoding: str = "utf-8"

    def encodable(self, text: str) -> str:
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            return text.translate(SUBSTITUTES).encode(self.encoding, "replace").decode(self.encoding)
        return text


def on_terminal() -> Screen:
    """The screen behind standard output, by the environment (``NO_COLOR``, ``COLUMNS``, ``TERM``)."""
    terminal = is_terminal()
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return Screen(max(NARROWEST, min(_columns(terminal), WIDEST)), terminal and _color_wanted(), encoding)


def is_terminal() -> bool:
    stream = sys.stdout
    return stream is not None and not stream.closed and stream.isatty()


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
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    try:  # piped into a pager: the terminal is still behind standard error
        return os.get_terminal_size(1 if terminal else 2).columns or PIPE_COLUMNS
    except OSError:
        return PIPE_COLUMNS
