"""Plugins of one file each: ``--plugins-dir DIR`` and ``MPSPROBE_PLUGINS_DIR``. Finds them and imports none.

What such a file needs stands in its inline metadata (PEP 723), the same that ``uv run`` and ``pipx run`` read::

    # /// script
    # requires-python = ">=3.11"
    # dependencies = ["mpsprobe>=0.1", "numpy"]
    # ///
"""

# ruff: noqa: PTH113, PTH118, PTH123, PTH208
# Importing pathlib costs more than finding the plugins.
from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import Any

from mpsprobe.errors import UsageError
from mpsprobe.plugins.discovery import FoundPlugin
from mpsprobe.plugins.requirements import OURS, is_installed, specifier_of_ours
from mpsprobe.suggestions import printable

FOLDERS_VARIABLE = "MPSPROBE_PLUGINS_DIR"
BLOCK = r"^# /// script *$\n(?P<content>(^#(| .*)$\n)*)^# /// *$"


def folders_from_environment() -> list[str]:
    return [folder for folder in os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep) if folder]


def find_in_folders(folders: Iterable[str]) -> list[FoundPlugin]:
    """A plugin for each ``*.py`` of ``folders``, sorted within each; ``_…`` and ``.…`` are no plugins."""
    plugins: list[FoundPlugin] = []
    for folder in dict.fromkeys(os.path.realpath(folder) for folder in folders):
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            problem = f"the folder of plugins '{printable(folder)}' cannot be read: {error.strerror}"
            raise UsageError(problem, f"It was named by --plugins-dir or {FOLDERS_VARIABLE}.") from error
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".py") and not name.startswith(("_", ".")) and os.path.isfile(path):
                same = next((other.file for other in plugins if other.distribution == name), None)
                plugins.append(_found(path, name, f"{same} has the same name" if same else None))
    return plugins


def _found(path: str, name: str, problem: str | None) -> FoundPlugin:
    stem = name.removesuffix(".py")
    requires: tuple[str, ...] = ()
    if problem is None and "." in stem:
        problem = "a '.' in its name makes it no module that could be imported"
    elif problem is None and (taken := _taken(stem, path)):
        problem = f"its name is that of the module {taken}: rename the file"
    if problem is None:
        try:
            requires = _requires(path)
        except (OSError, ValueError) as error:
            problem = f"it cannot be read: {' '.join(str(error).split())}"
    return FoundPlugin(stem, name, "", stem, problem and printable(problem), requires, path)


def _taken(stem: str, path: str) -> str | None:
    """What already answers to ``import STEM``; a file that hides a module would break whoever wants that one."""
    import importlib.util

    if (loaded := sys.modules.get(stem)) is not None:
        origin = getattr(loaded, "__file__", None)
    else:
        try:
            spec = importlib.util.find_spec(stem)
        except (ImportError, ValueError):
            return None
        if spec is None:
            return None
        origin = spec.origin
    return None if origin is not None and os.path.realpath(origin) == path else origin or stem


def _requires(path: str) -> tuple[str, ...]:
    """What the inline metadata asks of mpsprobe; ``ValueError`` where it is wrong or something else is not here."""
    with open(path, encoding="utf-8") as file:
        metadata = inline_metadata(file.read())
    dependencies = metadata.get("dependencies", [])
    if not isinstance(dependencies, list) or not all(isinstance(text, str) for text in dependencies):
        raise ValueError("the dependencies of its inline metadata should be a list of texts")
    if lacking := [text for text in dependencies if not OURS.fullmatch(text) and not is_installed(text)]:
        raise ValueError(f"it needs {', '.join(lacking)}, not installed or in another version")
    return tuple(specifier for text in dependencies if (specifier := specifier_of_ours(text)) is not None)


def inline_metadata(text: str) -> dict[str, Any]:
    """The block ``script`` of PEP 723 in a Python source; empty if there is none, ``ValueError`` if it is wrong."""
    blocks = list(re.finditer(BLOCK, text.replace("\r\n", "\n"), re.MULTILINE))
    if len(blocks) > 1:
        raise ValueError("it has more than one block of inline metadata")
    if not blocks:
        if re.search(r"^# /// script\s*$", text, re.MULTILINE):
            raise ValueError("its inline metadata is not closed by '# ///'")
        return {}
    import tomllib

    return tomllib.loads("\n".join(line[1:].removeprefix(" ") for line in blocks[0]["content"].splitlines()))
