"""What ``--vary`` asks for. Imports no torch: the command line reads it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mpsprobe.protocols import RunOptions

SIZE = "size"


@dataclass(frozen=True, slots=True)
class Vary:
    """Every whole number from ``first`` to ``last``; ``what`` is one of ``commands.options.VARIED``."""

    what: Any
    first: int
    last: int

    @property
    def tried(self) -> list[int]:
        """Those that stand for all: the first, one in the middle, the last."""
        return sorted({self.first, (self.first + self.last) // 2, self.last})

    def sizes(self, options: RunOptions) -> list[tuple[RunOptions, int | None]]:
        """``options`` for each that is tried, with the width of images where it is that."""
        return [(with_value(options, self.what, one), one if self.what == SIZE else None) for one in self.tried]


def with_value(options: RunOptions, what: str, value: int) -> RunOptions:
    """``options`` with one of the numbers; the ``size`` of images is none of them."""
    changed: dict[str, Any] = {} if what == SIZE else {what.replace("-", "_"): value}
    return replace(options, **changed)
