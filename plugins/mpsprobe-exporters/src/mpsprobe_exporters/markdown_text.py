"""Text of a report made safe inside GitHub-flavoured Markdown, in and outside tables."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from mpsprobe_exporters.plain_text import one_line

# Nothing in these can end a code span, a table cell, or start anything else.
PLAIN_CODE = re.compile(r"[A-Za-z0-9_.,:;/=+(){}\[\] -]*[A-Za-z0-9_.,:;/=+(){}\[\]-]")
# Structure that Markdown sees in running text. Underscores inside words are none on GitHub.
STRUCTURE = re.compile(r"[\\`*\[\]|~#!$]|(?<![^\W_])_|_(?![^\W_])")
# What makes a list or a heading of the line that it begins.
BEGINNING = re.compile(r"[-+](?=[\s-]|$)|=(?==*$)|[0-9](?=[0-9]{0,8}[.)](\s|$))")


def code(text: str, longest: int | None = 300) -> str:
    """``text`` as code: a code span, or ``<code>`` with entities where a span could be broken out of."""
    clean = one_line(text, longest)
    if not clean:
        return ""
    if PLAIN_CODE.fullmatch(clean) and clean[0] != " ":
        return f"`{clean}`"
    entities = "".join(c if c.isalnum() or c in " .,:;/=" else f"&#{ord(c)};" for c in clean)
    return f"<code>{entities}</code>"


def prose(text: str, longest: int | None = None) -> str:
    """``text`` as running text: nothing in it is markup, but pairs of backticks around plain code stay."""
    clean = one_line(text, longest)
    parts = re.split(r"`([^`]+)`", clean)
    text = "".join(code(part) if index % 2 else _escaped(part) for index, part in enumerate(parts))
    return f"&#{ord(text[0])};{text[1:]}" if BEGINNING.match(text) else text


def table(header: Iterable[str], rows: Iterable[Iterable[str]], right: Iterable[int] = ()) -> list[str]:
    """The lines of a table whose cells are Markdown already; the columns numbered in ``right`` hold numbers."""
    titles = list(header)
    aligned = set(right)
    lines = [_line(titles), _line("---:" if index in aligned else "---" for index in range(len(titles)))]
    return lines + [_line(row) for row in rows]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    # An entity is never structure, so a pipe needs no second escape inside a table; an empty comment
    # after an @ keeps GitHub from notifying whoever has that name.
    safe = html.escape(text, quote=False)
    safe = STRUCTURE.sub(lambda found: f"&#{ord(found[0])};", safe)
    return re.sub(r"@(?=\w)", "@<!-- -->", safe)
