"""Nearest names for a name that nothing answers to; names and errors made fit to print."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

SHOWN_CHARACTERS = 200
"""How much of a text that somebody else wrote a message shows."""
REMEDIES = {
    r"compiled with CUDA|NVIDIA driver|on a CUDA device|CUDA GPUs": "A Mac has no CUDA. Leave out .cuda() and "
    'device="cuda", as mpsprobe moves the model and its inputs, or write '
    '.to("mps" if torch.backends.mps.is_available() else "cpu"). New tensors: device=x.device.',
    r"Cannot copy out of meta tensor": "Its tensors have no values, which it needs to run: make them on the CPU.",
    r"torchvision::\w+ does not exist|load custom C\+\+ ops|torchvision.*(ndefined symbol|ymbol not found)": (
        "torchvision was built for another torch. Install both: pip install --upgrade torch torchvision"
    ),
}
"""What to do about errors of PyTorch that many people meet, by an expression for their message."""


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known names nearest to ``name``, best first; empty when none is near.

    A name that only differs in case, or that contains or begins the other, counts as near:
    ``bert`` finds ``bert-base``.
    """
    import difflib

    asked = name[:SHOWN_CHARACTERS].lower()
    candidates = sorted(set(known))
    lowered: dict[str, str] = {}
    for candidate in candidates:
        lowered.setdefault(candidate.lower(), candidate)
    matches = [lowered[match] for match in difflib.get_close_matches(asked, list(lowered), n=count, cutoff=0.6)]
    if len(asked) >= 3:
        contained = [c for low, c in lowered.items() if asked in low or (len(low) >= 3 and low in asked)]
        matches += sorted(contained, key=lambda c: (not c.lower().startswith(asked), len(c)))
    return list(dict.fromkeys(matches))[:count]


def printable(text: str) -> str:
    """``text`` on one line, without control characters, at most 200 characters long.

    Names come from the command line, from files and from the Hub; one with a newline or an
    escape sequence in it must not draw on the user's terminal.
    """
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return clean if len(clean) <= SHOWN_CHARACTERS else clean[: SHOWN_CHARACTERS - 1] + "…"


def without_home(text: str) -> str:
    """``text`` with ``~`` for the user's home folder, which often is their name."""
    home = os.path.expanduser("~")  # noqa: PTH111 - a Path raises where there is none
    if len(home) < 2 or home not in text:
        return text
    return re.sub(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])", "~", text)


def type_name(error: BaseException) -> str:
    """What the error's class is called, safe to print: a class that a plugin makes may be called anything."""
    return printable(type(error).__name__)


def said(error: BaseException) -> str:
    """What an error says, also where its own ``__str__`` raises."""
    try:
        return str(error)
    except BaseException as another:  # noqa: BLE001 - somebody else's class
        return f"(its message cannot be made: {type_name(another)})"


def first_line(error: BaseException) -> str:
    """The first line that an error says, which may say a lot; its type where it says nothing."""
    return next(filter(None, map(str.strip, said(error).splitlines())), type_name(error))


def in_short(error: BaseException) -> str:
    """The type of an error and its first line where it has one, safe to print: ``ValueError: the message``."""
    name, line = type_name(error), first_line(error)
    return name if line == name else f"{name}: {printable(line)}"


def some(names: Sequence[str], most: int = 3) -> str:
    """``a, b, c and 2 more``: the first ``most`` of ``names``."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def an(noun: str) -> str:
    """``noun`` with its article."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def remedy(error: BaseException | None) -> str | None:
    """What to do about a well-known error, which may be the cause of ``error``; ``None`` for all others."""
    seen: set[int] = set()  # a plugin may make an error its own cause
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        for message, advice in REMEDIES.items():
            if re.search(message, said(error)):
                return advice
        error = error.__cause__ or error.__context__
    return None
