"""Settings from ``[tool.mpsprobe]`` in the nearest ``pyproject.toml``, the last but one in precedence. Public.

Flags come first, then ``MPSPROBE_*`` variables (``MPSPROBE_COVERAGE_DTYPE`` for ``coverage --dtype``),
then this file, then defaults. A table named like a command holds that command's flags::

    [tool.mpsprobe]
    strict-plugins = true
    [tool.mpsprobe.coverage]
    phase = "training"
"""

# ruff: noqa: PTH100, PTH113, PTH118, PTH120, PTH123
# Importing pathlib costs more than reading the settings.
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mpsprobe.errors import UsageError
from mpsprobe.suggestions import printable

FILE_NAME = "pyproject.toml"
"""Where settings stand."""
_ADVISORIES = "advisories"
NOT_FROM_A_FILE = {"plugins_dir"}
"""Settings that the table must not have: they would decide which code runs."""


def nearest_pyproject(start: str | os.PathLike[str]) -> str | None:
    """The path of the ``pyproject.toml`` in ``start`` or the nearest folder above it; ``None`` where there is none."""
    folder, below = os.path.abspath(start), ""
    while folder != below:
        candidate = os.path.join(folder, FILE_NAME)
        if os.path.isfile(candidate):
            return candidate
        folder, below = os.path.dirname(folder), folder
    return None


def read_settings(start: str | os.PathLike[str] = ".") -> dict[str, Any]:
    """What ``[tool.mpsprobe]`` says, as click's ``default_map``: flags with ``_`` for ``-``, tables by command.

    Raises:
        UsageError: the file has such a table and cannot be read, or a value no flag could take.
    """
    path, table = _table_near(start)
    if isinstance(table.get(_ADVISORIES), list):  # no flags of that command
        table = {key: value for key, value in table.items() if key != _ADVISORIES}
    if refused := NOT_FROM_A_FILE & {_parameter(key, None) for key in table}:
        name = refused.pop().replace("_", "-")
        raise UsageError(
            f"{printable(path)}: tool.mpsprobe.{name} is not read: a folder that came with a download must not "
            "decide which code runs",
            f"Use the flag --{name}, or its variable.",
        )
    return {_parameter(key, value): _checked(value, f"tool.mpsprobe.{key}", path) for key, value in table.items()}


def advisory_files(start: str | os.PathLike[str] = ".") -> tuple[str, ...]:
    """The paths of the user's own advisories: ``advisories = ["mine.toml"]``, relative to ``pyproject.toml``.

    Raises:
        UsageError: the table cannot be read, or names no list of files.
    """
    path, table = _table_near(start, b"advisories")
    files = table.get(_ADVISORIES)
    if files is None or isinstance(files, dict):
        return ()
    if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
        raise UsageError(f"{printable(path)}: tool.mpsprobe.advisories should be a list of paths")
    return tuple(os.path.join(os.path.dirname(path), file) for file in files)


def _table_near(start: str | os.PathLike[str], word: bytes = b"mpsprobe") -> tuple[str, Mapping[str, Any]]:
    """The path of the nearest file, and its table; an empty one where ``word`` is not in the file."""
    try:
        path = nearest_pyproject(start)
    except OSError:  # the current folder was deleted
        return "", {}
    if path is None:
        return "", {}
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise UsageError(f"cannot read {printable(path)}: {error.strerror}") from error
    if word not in content:  # most files; parsing TOML costs more than the rest of the start-up
        return path, {}
    return path, _own_table(content, path)


def _own_table(content: bytes, path: str) -> Mapping[str, Any]:
    import tomllib

    try:
        document = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{printable(path)} is not valid TOML: {printable(str(error))}") from error
    tool = document.get("tool")
    table = tool.get("mpsprobe", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise UsageError(f"{printable(path)}: [tool.mpsprobe] is not a table")
    return table


def _parameter(key: str, value: Any) -> str:
    """Commands keep their dashes; flags are written as click names their parameters."""
    return key if isinstance(value, dict) else key.replace("-", "_")


def _checked(value: Any, where: str, path: str) -> Any:
    if isinstance(value, dict):
        return {_parameter(key, given): _checked(given, f"{where}.{key}", path) for key, given in value.items()}
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, (str, int, float, bool)) for item in items):
        problem = "should be text, a number, true or false, or a list of these"
        raise UsageError(f"{printable(path)}: {printable(where)} {problem}")
    return value
