"""Strings of a report made fit to show: one line, no control characters, a bounded length."""

from __future__ import annotations

import re

from mpsprobe_exporters.units import number

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
LONGEST = 300
NO_BREAK = "\N{NO-BREAK SPACE}"  # no text has one of its own, see ``one_line``
# A blank at which no line ends: between a number and what it is of.
KEPT = re.compile(r"(?<=\d) (?=[^\W\d]|[%°])|(?<=exit code) (?=-?\d)")
# Where a long name may be broken: after `::`, `_`, `.`, `,` (not within a release) and before a capital that
# follows a small letter.
JOINTS = re.compile(r"(?<=::)|(?<=[_.,/-])(?=[^_.,/-])(?!(?<=\d\.)\d)|(?<=[a-z0-9])(?=[A-Z])")


def one_line(text: str, longest: int | None = LONGEST) -> str:
    """``text`` on one line, with nothing in it that moves the cursor or turns the writing direction.

    Runs of white space become one space; what ``str.isprintable`` refuses (escape sequences,
    marks of direction, lone surrogates) becomes U+FFFD. Texts that are longer than ``longest`` lose their middle.
    """
    if text.isprintable() and "  " not in text:  # a space is the one that is printable
        joined = text.strip()
    else:
        joined = re.sub(r"[\s\x1c-\x1f\x85]+", " ", text).strip()
    clean = joined if joined.isprintable() else "".join(c if c.isprintable() else REPLACEMENT for c in joined)
    if longest is None or len(clean) <= longest:
        return clean
    head = longest * 2 // 3
    return clean[:head] + "…" + clean[len(clean) - (longest - head - 1) :]


def kept(text: str) -> str:
    """``text`` with no place for a line to end between a number and its unit."""
    return KEPT.sub(NO_BREAK, text)


def call_site(text: str) -> str:
    """``modeling_bert.py:164`` for ``/…/bert/modeling_bert.py:164``; folders are cut on any system's separator."""
    clean = one_line(text)
    return re.split(r"[/\\]", clean)[-1] or clean


def plural(count: int, singular: str, several: str | None = None) -> str:
    """``1 operator``, ``2 operators``; thousands are separated by commas."""
    return f"{number(count)} {singular if count == 1 else several or singular + 's'}"


def sentence(text: str) -> str:
    """``text`` with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def listed(items: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1] if items else ""


def shortened(items: list[str], most: int | None) -> list[str]:
    """The first ``most`` items (``None`` for all); when there are more, the last entry says how many."""
    return items if most is None or len(items) <= most else [*items[:most], f"and {len(items) - most:,} more"]


def distinct(names: list[str]) -> list[str]:
    """Names that stand below each other, made of parts with commas, without the parts that all of them share."""
    parts = [name.split(", ") for name in names]
    shared = set.intersection(*map(set, parts)) if len(parts) > 1 else set()
    return [
        ", ".join(part for part in own if part not in shared) or name for own, name in zip(parts, names, strict=True)
    ]
