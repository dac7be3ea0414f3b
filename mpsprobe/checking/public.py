"""What a plugin may import of mpsprobe. ``tests/house/test_arrows.py`` holds our own plugins to the same list."""

from __future__ import annotations

PUBLIC_PARTS = frozenset({
    "", "declarations", "environment", "errors", "exporting", "options", "output", "progress", "protocols",
    "registry", "schemas", "stepping", "suggestions", "testing",
})  # fmt: skip
"""Modules and packages directly in ``mpsprobe``; ``""`` is ``mpsprobe`` itself. Others may change without a word."""


def is_public(module: str) -> bool:
    """Whether a plugin may import ``module`` (``mpsprobe.schemas.profile``, or ``mpsprobe``)."""
    package, _, rest = module.partition(".")
    return package == "mpsprobe" and rest.partition(".")[0] in PUBLIC_PARTS and "._" not in module
