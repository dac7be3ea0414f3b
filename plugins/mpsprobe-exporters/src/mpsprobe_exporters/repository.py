"""Lines of source as files of the repository around the current folder: what GitHub shows next to the code.

A report names a line by its path below the folder that the file is imported from. Where that is, is looked up on the
machine that writes: in the repository, with the packages of the report installed.
"""

from __future__ import annotations

import ast
import os.path
import sys
from pathlib import Path
from typing import NamedTuple

OF_OTHERS = {"site-packages", "dist-packages"}
"""Folders below which nothing is the repository's own, though a virtual environment may be within it."""


class Line(NamedTuple):
    """A line of a file: ``path`` from the root of the repository, with forward slashes; ``number`` from 1."""

    path: str
    number: int


class Repository:
    """The repository around the current folder: where ``.git`` is; without one, the folder itself."""

    def __init__(self) -> None:
        self._here = Path.cwd()
        self.root = next((one for one in (self._here, *self._here.parents) if (one / ".git").exists()), self._here)
        self._files: dict[tuple[str, str], str | None] = {}

    def workload(self, name: str) -> Line | None:
        """Where ``path/to/file.py:function`` begins, or a script; ``None`` for a workload that is no file here."""
        path, colon, function = name.rpartition(":")
        if not (colon and path.lower().endswith(".py")):
            path, function = name, ""
        found = self._own(self._here / path) if path.lower().endswith(".py") else None
        return Line(found, _line_of(self.root / found, function)) if found else None

    def line(self, site: str, workload: str) -> Line | None:
        """The line that a report calls ``file:line``; ``None`` where it is in no file of the repository.

        Args:
            workload: the name of what was run: the folder of a user's file is one that files are imported from.
        """
        path, _, number = site.rpartition(":")
        if not (path and number.isascii() and number.isdecimal() and int(number[:9]) > 0):
            return None
        if (path, workload) not in self._files:
            self._files[path, workload] = self._file(path, workload)
        found = self._files[path, workload]
        return Line(found, int(number[:9])) if found else None

    def _file(self, path: str, workload: str) -> str | None:
        file = self.workload(workload)
        folders = [(self.root / file.path).parent] if file else []
        folders += [self._here, self.root, *(self._here / entry for entry in sys.path if entry)]
        return next(filter(None, (self._own(folder / path) for folder in folders)), None)

    def _own(self, path: Path) -> str | None:
        if not os.path.isfile(path):  # noqa: PTH113 - Path raises for a name that is too long
            return None
        whole, root = path.resolve(), self.root.resolve()
        if not whole.is_relative_to(root) or OF_OTHERS.intersection(whole.parts):
            return None
        return whole.relative_to(root).as_posix()


def _line_of(path: Path, function: str) -> int:
    """Where a function of a file begins; its first line where there is none, or the file is no Python."""
    try:
        found = ast.parse(path.read_bytes()).body if function else []
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        found = []
    named = (one for one in found if isinstance(one, (ast.FunctionDef, ast.ClassDef)) and one.name == function)
    return next((one.lineno for one in named), 1)
