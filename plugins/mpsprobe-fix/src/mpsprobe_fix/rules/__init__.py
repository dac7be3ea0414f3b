"""The rules, in the order in which they are asked about a node. A rule is one entry, with two examples."""

from __future__ import annotations

from mpsprobe_fix.rule import RULES

from mpsprobe_fix.rules import mixed, availability, devices, calls, numbers, loading, packages, seen  # isort: skip
from mpsprobe_fix.rules.packages import PACKAGES

__all__ = ["PACKAGES", "RULES", "availability", "calls", "devices", "loading", "mixed", "numbers", "packages", "seen"]
