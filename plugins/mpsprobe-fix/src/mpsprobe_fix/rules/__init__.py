"""The rules, in the order in which they are asked about a node. A rule is one entry, with two examples."""

from mpsprobe_fix.rule import RULES
from mpsprobe_fix.rules import availability, calls, devices, loading, mixed, numbers, packages, seen  # noqa: F401

__all__ = ["RULES"]
