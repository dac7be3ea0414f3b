"""``{check-codes}``: every code of ``mpsprobe plugins check``, out of the table that the command itself uses."""

from __future__ import annotations

from itertools import groupby

from _site.markdown import MarkdownDirective, code, from_docstring
from mpsprobe_devkit.checking.codes import CODES


class CheckCodes(MarkdownDirective):
    """The codes by the part of the check that finds them."""

    def markdown(self, argument: str) -> str:
        """A section for each part, with an entry for each code."""
        parts = []
        for group, found in groupby(CODES.items(), key=lambda item: item[1].group):
            parts.append(f"### {group.capitalize()}")
            for name, one in found:
                texts = [from_docstring(text) for text in (one.summary, one.what_to_do)]
                parts.append(f"{code(name)} ({one.level})\n: {texts[0]}\n  {texts[1]}")
        return "\n\n".join(parts)
