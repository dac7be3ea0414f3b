"""One thing that is wrong with a plugin. Public."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from mpsprobe_devkit.checking.codes import CODES, ERROR, GROUPS

MOST_CHARACTERS = 1000  # of a message: what a plugin says can be of any length


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        code: which kind of thing, a key of ``mpsprobe_devkit.checking.CODES``.
        level: ``error`` or ``warning``.
        message: what is wrong, one sentence with the offending value in it.
        where: ``path/to/file.py:12``, ``pyproject.toml``, or the hook or declaration; empty for the plugin as a whole.
        hint: what to do about it.
    """

    code: str
    level: str
    message: str
    where: str = ""
    hint: str | None = None

    @property
    def group(self) -> str:
        """The part of the check that found it, one of ``mpsprobe_devkit.checking.codes.GROUPS``."""
        return CODES[self.code].group

    def as_dict(self) -> dict[str, str | None]:
        """The fields as JSON takes them."""
        return dataclasses.asdict(self)


def finding(code: str, message: str, where: str = "", hint: str | None = None) -> Finding:
    """A ``Finding`` with the level of its code, its texts safe to print; without ``hint`` it has the code's advice."""
    entry = CODES[code]
    return Finding(code, entry.level, clean(message), clean(where), clean(hint) if hint else entry.what_to_do)


def clean(text: str) -> str:
    """``text`` on one line without control characters, at most 1,000 characters long."""
    text = " ".join(text[: 2 * MOST_CHARACTERS].split())
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= MOST_CHARACTERS else shown[: MOST_CHARACTERS - 1] + "…"


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Without repetitions, by the part of the check, errors first, then as they were found."""
    return sorted(dict.fromkeys(findings), key=lambda one: (GROUPS.index(one.group), one.level != ERROR))
