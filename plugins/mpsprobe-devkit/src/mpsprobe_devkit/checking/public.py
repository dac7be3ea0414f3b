"""What a plugin may import of mpsprobe. ``tests/house/test_arrows.py`` holds our own plugins to the same list."""

from __future__ import annotations

PUBLIC_PARTS = frozenset({
    "", "answers", "assembling", "commands", "declarations", "doubts", "engine.statistics", "environment", "errors",
    "exporting", "folding", "options", "output", "plugins.registry", "progress", "protocols", "schemas", "settings",
    "stepping", "streams", "suggestions", "views",
})  # fmt: skip
"""Modules and packages in ``mpsprobe``; ``""`` is ``mpsprobe`` itself. Others may change without notice."""


def is_public(module: str) -> bool:
    """Whether a plugin may import ``module`` (``mpsprobe.schemas.profile``, or ``mpsprobe``)."""
    package, _, rest = module.partition(".")
    parts = rest.split(".")
    public = not PUBLIC_PARTS.isdisjoint({".".join(parts[:depth]) for depth in (1, 2)})
    return package == "mpsprobe" and public and "._" not in module
