"""A plugin is sound: what ``mpsprobe plugins check`` says, as an assertion."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def assert_plugin_sound(target: str | Path, *, ignore: Iterable[str] = (), warnings: bool = True) -> None:
    """Assert that ``mpsprobe plugins check`` finds nothing wrong with a plugin.

    Args:
        target: a folder with a ``pyproject.toml``, a single ``.py`` file, a wheel, or the name of what is installed.
        ignore: codes of findings that are known and accepted.
        warnings: a warning is a finding too.

    Raises:
        AssertionError: something is wrong; every finding is told, with what to do about it.
        UsageError: there is nothing at ``target``.
        ValueError: ``ignore`` has a code that there is not.
    """
    from mpsprobe_devkit.checking import CODES, check_plugin

    ignored = set(ignore)
    if unknown := ignored - set(CODES):
        raise ValueError(f"there is no finding called {', '.join(sorted(unknown))}")
    found = [one for one in check_plugin(target) if one.code not in ignored and (warnings or one.level == "error")]
    if found:
        lines = [
            f"{one.level} {one.code}{f' in {one.where}' if one.where else ''}: {one.message}"
            + (f"\n    {one.hint}" if one.hint else "")
            for one in found
        ]
        raise AssertionError("\n".join([f"{target} is not sound:", *lines]))
