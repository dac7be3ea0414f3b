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


def with_value(options: RunOptions, what: str, value: int) -> RunOptions:
    """``options`` with one of the numbers; the ``size`` of images is none of them."""
    changed: dict[str, Any] = {} if what == SIZE else {what.replace("-", "_"): value}
    return replace(options, **changed)
