"""The rules, in the order in which they are asked about a node. A rule is one entry, with two examples."""

from __future__ import annotations

from mpsprobe_fix.rule import RULES

from mpsprobe_fix.rules import (  # isort: skip
    mixed, availability, devices, calls, numbers, loading, packages, compiling, seen,
)  # fmt: skip

__all__ = [
    "RULES", "availability", "calls", "compiling", "devices", "loading", "mixed", "numbers", "packages", "seen",
]  # fmt: skip
