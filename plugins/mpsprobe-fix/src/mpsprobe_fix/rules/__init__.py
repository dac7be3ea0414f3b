"""The rules, in the order in which they are asked about a node. A rule is one entry, with two examples."""

from mpsprobe_fix.rule import RULES

from mpsprobe_fix.rules import devices, numbers, calls, loading, packages, seen  # noqa: F401  # isort: skip

__all__ = ["RULES"]
