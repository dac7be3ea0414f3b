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

    def with_value(self, options: RunOptions, value: int) -> RunOptions:
        """``options`` with one of the numbers; the ``size`` of images is none of them."""
        return options if self.what == SIZE else replace(options, **{self.what.replace("-", "_"): value})
