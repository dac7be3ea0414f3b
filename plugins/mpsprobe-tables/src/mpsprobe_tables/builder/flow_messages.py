"""The sentence that a function raises with, from the texts that its code takes the addresses of: see ``flow``."""

from __future__ import annotations

import re
from collections.abc import Sequence

SENTENCE = re.compile(r"[A-Za-z\"].* .*\w.*")
NAME = re.compile(r"[a-z_]\w+")
NO_MESSAGE = re.compile(r"INTERNAL ASSERT|^/|\n|Could this error message be improved")
DISPATCH = "\" not implemented for '"


def sentence(texts: Sequence[str]) -> str | None:
    """The last sentence of ``texts``; the parts around a value that is written into it are parted by three dots."""
    said = [text for text in texts if SENTENCE.search(text) and not NO_MESSAGE.search(text)]
    if not said:
        return None
    before = texts[: texts.index(said[-1])]
    if said[-1] == DISPATCH:
        names = [text for text in before if NAME.fullmatch(text)]
        return f'"{names[-1]}" not implemented for' if names else None
    if said[-1].startswith(" "):
        begins = [text for text in before if text.endswith(" ")]
        return f"{begins[-1]}…{said[-1]}" if begins else None
    return said[-1].strip(" ,:")
