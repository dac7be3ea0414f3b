"""A line of a terminal: pieces of text with a style each, as wide as a terminal draws them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mpsprobe_exporters.terminal.screen import SUBSTITUTES

Line = list[tuple[str, str]]
"""Text and style, from the left; the style is words of ``CODES``, or empty."""
WORD = re.compile(r"\s*\S+\s*")
CODES = {"bold": "1", "red": "31", "green": "32", "magenta": "35"}


def cell_len(text: str) -> int:
    """The columns that ``text`` takes: two for a Chinese character, none for an accent on its own."""
    if text.isascii() or text.translate(SUBSTITUTES).isascii():
        return len(text)
    from rich.cells import cell_len as measured  # its tables of widths cost more than to draw a report without them

    return measured(text)


def width_of(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)


def fitting(line: Line, width: int) -> Iterator[Line]:
    """``line`` itself, or where it is wider than ``width`` columns as many as it takes."""
    if width_of(line) <= width:
        yield line
        return
    start = 0
    for end in (*_breaks("".join(text for text, _ in line), width), None):
        part, at = Line(), 0
        for text, style in line:
            part.append((text[max(start - at, 0) : None if end is None else max(end - at, 0)], style))
            at += len(text)
        yield part
        start = end or 0


def _breaks(text: str, width: int) -> Iterator[int]:
    """Where ``text`` goes on in another line: between words, and within one that is wider than a line."""
    taken = 0
    for found in WORD.finditer(text):
        word, start = found[0], found.start()
        needed = cell_len(word.rstrip())
        if needed > width - taken:
            if start:
                yield start
            taken = 0
        for at, character in enumerate(word, start):
            columns = cell_len(character)
            if needed > width < taken + columns:
                yield at
                taken = 0
            taken += columns


def coded(line: Line, color: bool) -> str:
    """``line`` as it is written, with ANSI sequences for its styles where ``color`` is."""
    return "".join(
        f"\x1b[{';'.join(CODES[word] for word in style.split())}m{text}\x1b[0m" if color and style and text else text
        for text, style in line
    )
