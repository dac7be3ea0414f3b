"""Every code that ``mpsprobe plugins check`` can report: what it means and what to do. Public.

The codes are stable: a CI configuration may name them. The reference of the documentation is made of this table.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files

GROUPS = ("package", "loading", "hooks", "targets", "contracts", "tests")
"""The parts of a check, in the order in which they are shown."""
MOST_CHARACTERS = 1000  # of a message: what a plugin says can be of any length


@dataclass(frozen=True, slots=True)
class Code:
    """One thing that can be wrong.

    Attributes:
        level: ``error`` (mpsprobe leaves the plugin or a part of it out, or a user meets a failure) or ``warning``.
        group: the part of the check that finds it, one of ``GROUPS``.
        summary, what_to_do: what it means for a user, and the advice where a finding has none of its own.
    """

    level: str
    group: str
    summary: str
    what_to_do: str


_TABLE = tomllib.loads((files("mpsprobe_devkit.checking") / "codes.toml").read_text(encoding="utf-8"))
CODES: Mapping[str, Code] = {name: Code(**code) for name, code in _TABLE.items()}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a plugin.

    Attributes:
        code, level: which kind of thing, a key of ``CODES``; ``error`` or ``warning``.
        message: what is wrong, one sentence with the offending value in it.
        where: ``path/to/file.py:12`` or ``pyproject.toml``; empty for the plugin as a whole.
        hint: what to do about it.
    """

    code: str
    level: str
    message: str
    where: str
    hint: str

    @property
    def group(self) -> str:
        """The part of the check that found it, one of ``GROUPS``."""
        return CODES[self.code].group

    def as_dict(self) -> dict[str, str]:
        """The fields as JSON takes them."""
        return dataclasses.asdict(self)


def finding(code: str, message: str, where: str = "", hint: str | None = None) -> Finding:
    """A ``Finding`` with the level of its code, its texts safe to print; without ``hint`` it has the code's advice."""
    entry = CODES[code]
    return Finding(code, entry.level, _clean(message), _clean(where), _clean(hint or entry.what_to_do))


def _clean(text: str) -> str:
    """``text`` on one line without control characters, and not longer than anybody reads."""
    text = " ".join(text[: 2 * MOST_CHARACTERS].split())
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= MOST_CHARACTERS else shown[: MOST_CHARACTERS - 1] + "…"


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Without repetitions, by the part of the check, errors first, then as they were found."""
    return sorted(dict.fromkeys(findings), key=lambda one: (GROUPS.index(one.group), one.level != "error"))
