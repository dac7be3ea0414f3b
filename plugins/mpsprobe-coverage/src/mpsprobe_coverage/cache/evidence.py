"""The files, folders and variables that an answer depends on, as they were, and whether they still are so."""

# ruff: noqa: PTH116, PTH123
from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from mpsprobe_coverage.cache.surroundings import digest

LARGEST_READ = 32 * 2**20
"""Bytes up to which a file's content counts; of a larger one its size and times."""
MOST_FILES = 20_000
MODULES, NAMES = "modules", "names"
"""What of a folder counts: the modules that could be imported from it, or every name."""
CODE = (".py", ".so", ".pyd")
Stamp = list[Any]
"""Size, time of the last change of the content and of the file in ns, and the digest of the content or ``None``."""


class Evidence(NamedTuple):
    """All of it.

    Attributes:
        files: path → stamp; ``None`` for one that was not there.
        folders: path → what counts of it (``MODULES`` or ``NAMES``) and the digest of that.
        variables: names of variables that a user's code read.
        values: the digest of their values.
    """

    files: Mapping[str, Stamp | None] = {}
    folders: Mapping[str, tuple[str, str]] = {}
    variables: Collection[str] = ()
    values: str = ""

    def still_holds(self) -> bool:
        """Whether all is as it was. A file with other times and the same content is."""
        return (
            self.values == values_of(self.variables)
            and all(_is_same(path, stamp) for path, stamp in self.files.items())
            and all(listing(path, what) == found for path, (what, found) in self.folders.items())
        )

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "files": dict(self.files),
            "folders": dict(self.folders),
            "variables": list(self.variables),
            "values": self.values,
        }

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Evidence:
        """What ``as_data`` gave. Raises whatever wrong data does."""
        folders = {str(path): (str(what), str(found)) for path, (what, found) in data["folders"].items()}
        return cls(dict(data["files"]), folders, tuple(map(str, data["variables"])), data["values"])


def stamp(path: str) -> Stamp | None:
    """Of the file as it is now; ``None`` where there is none."""
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):
            return None
        content = _content(path) if about.st_size <= LARGEST_READ else None
    except (OSError, ValueError):
        return None
    return [about.st_size, about.st_mtime_ns, about.st_ctime_ns, content]


def listing(path: str, what: str) -> str:
    """The digest of what is in the folder; of one that cannot be read, that of nothing."""
    try:
        with os.scandir(path) as entries:
            names = [one.name for one in entries if what == NAMES or _is_module(one)]
    except (OSError, ValueError):
        names = []
    return digest(sorted(set(names) - {"__pycache__"}))


def values_of(names: Collection[str]) -> str:
    """The digest of these variables; no value is kept as it is."""
    return digest((name, os.environ.get(name)) for name in names) if names else ""


def _is_same(path: str, before: Stamp | None) -> bool:
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return before is None
    if before is None:
        return not stat.S_ISREG(about.st_mode)
    size, changed, moved, content = before
    if about.st_size != size or not stat.S_ISREG(about.st_mode):
        return False
    if (about.st_mtime_ns, about.st_ctime_ns) == (changed, moved):
        return True
    try:
        return content is not None and bool(_content(path) == content)
    except OSError:
        return False


def _content(path: str) -> str:
    with open(path, "rb") as file:
        return digest([file.read(LARGEST_READ + 1)])


def _is_module(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(CODE) or (not entry.name.startswith(".") and entry.is_dir())
