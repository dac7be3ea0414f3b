"""Lines of PyTorch's lists that do not say that a kernel is missing although their list does: ``exceptions.toml``.

Each line of the table names entries, dtypes, the test and the list, what the expectation really describes, and the
evidence. It takes these tests out of the figures. It is no place for what the mechanism misses.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from mpsprobe.errors import TableError

if TYPE_CHECKING:
    from mpsprobe_tables.audit.judging import Judged

MOST_LINES = 15


@dataclass(frozen=True, slots=True)
class ExceptionLine:
    """One line of the table.

    Attributes:
        entries: keys of OpInfo entries that share the cause.
        dtypes: their names; empty for all.
        test: ``forward`` or ``gradient``.
        lists: those that name them; ``decorators`` is at the entry itself.
        releases: a specifier, ``>=2.11``; empty for all.
        what: what it really is, in a few words.
        evidence: where that is said or how it shows.
    """

    entries: tuple[str, ...]
    dtypes: tuple[str, ...]
    test: str
    lists: tuple[str, ...]
    releases: str
    what: str
    evidence: str

    def holds(self, one: Judged, release: str) -> bool:
        """Whether the test that was judged is one of those."""
        return (
            one.entry in self.entries
            and (not self.dtypes or one.dtype in self.dtypes)
            and one.gradient == (self.test == "gradient")
            and not set(self.lists).isdisjoint(one.lists)
            and SpecifierSet(self.releases).contains(release)
        )


def matching(lines: Sequence[ExceptionLine], one: Judged, release: str) -> ExceptionLine | None:
    """The first line that takes the test out."""
    return next((line for line in lines if line.holds(one, release)), None)


@functools.cache
def exception_lines() -> tuple[ExceptionLine, ...]:
    """The committed table.

    Raises:
        TableError: it is damaged.
    """
    text = (files("mpsprobe_tables.audit") / "exceptions.toml").read_text(encoding="utf-8")
    try:
        return tuple(
            ExceptionLine(
                tuple(line["entries"]),
                tuple(line.get("dtypes", ())),
                line.get("test", "forward"),
                tuple(line["lists"]),
                line.get("torch", ""),
                line["what"],
                line["evidence"],
            )
            for line in tomllib.loads(text).get("exception", ())
        )
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise TableError(f"the table of exceptions of the audit is damaged: {error}") from error
