"""Finds the installed plugins: the entry points of the group ``mpsprobe``. Imports none of them.

Metadata folders are read here: to import ``importlib.metadata`` takes 22 ms, two thirds of what click takes, and to
list the entry points with it 9 ms more. A test compares both.
"""

# ruff: noqa: PTH118, PTH208
# Importing pathlib costs more than all that is asked of it here.
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from mpsprobe.plugins.requirements import specifier_of_ours
from mpsprobe.version import __version__

GROUP = "mpsprobe"
METADATA_FOLDERS = (".dist-info", ".egg-info")
Read = Callable[[str], bytes]
"""Gives a file of one distribution's metadata; nothing where there is none that can be read."""


class FoundPlugin(NamedTuple):
    """One entry point, not imported yet."""

    name: str  # what ``-p no:NAME`` takes
    distribution: str
    version: str  # of the distribution
    target: str  # ``"package.module"`` or ``"package.module:attribute"``
    problem: str | None = None  # why it cannot even be tried
    requires: tuple[str, ...] = ()  # which versions of mpsprobe its metadata asks for, as specifiers (``>=0.1,<1``)
    file: str | None = None  # the path of a single file (``--plugins-dir``), whose module is then called ``target``

    @property
    def owner(self) -> str:
        """Distribution and version, as messages name it; of a single file its name."""
        return f"{self.distribution} {self.version}".strip()


# The commands of the core are declared by a plugin like any other, except that it is there without
# an entry point: a broken or missing metadata folder must not take `mpsprobe plugins list` away.
CORE = FoundPlugin(name="core", distribution="mpsprobe", version=__version__, target="mpsprobe.cli.plugin")


def find_plugins() -> list[FoundPlugin]:
    plugins = [plugin for _, read in _distributions() for plugin in _plugins(read)]
    return [CORE, *sorted(plugins, key=lambda plugin: (plugin.distribution, plugin.name))]


def installed(names: Collection[str]) -> dict[str, tuple[str, str]]:
    """Which of the distributions ``names`` are installed → version, and the text of ``direct_url.json`` or nothing.

    That file says whether one is edited in place.
    """
    wanted = {_normalized(name): name for name in names}
    return {
        wanted[name]: (_headers(read)["version"][-1], read("direct_url.json").decode("utf-8", "replace"))
        for name, read in _distributions()
        if name in wanted
    }


def _distributions() -> Iterator[tuple[str, Read]]:
    """The name of each distribution without signs, and its metadata; what comes first on sys.path hides the rest."""
    seen = set()
    for entry in sys.path:
        with suppress(OSError):
            for folder in sorted(os.listdir(entry or ".")):
                name = _normalized(folder.rpartition(".")[0].partition("-")[0])
                if folder.endswith(METADATA_FOLDERS) and name not in seen:
                    seen.add(name)
                    yield name, partial(_read, os.path.join(entry, folder))


def _read(folder: str, file: str) -> bytes:
    with suppress(OSError), open(os.path.join(folder, file), "rb", opener=at_once) as stream:
        return stream.read()
    return b""


def at_once(path: str, flags: int) -> int:
    """Opens without waiting for somebody who writes, where it is a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _plugins(read: Read) -> Iterator[FoundPlugin]:
    """The entry points of one distribution; a file that cannot be read is a plugin with a problem."""
    content = read("entry_points.txt")
    if GROUP.encode() not in content:
        return
    headers = _headers(read)
    name, version = headers["name"][-1], headers["version"][-1]
    specifiers = map(specifier_of_ours, headers.get("requires-dist", ()))
    requires = tuple(specifier for specifier in specifiers if specifier is not None)
    try:
        points = list(_parse(content.decode("utf-8")))
    except ValueError as error:
        yield FoundPlugin("?", name, version, "", f"its entry_points.txt cannot be read: {error}")
        return
    for point, target in points:
        yield FoundPlugin(point, name, version, target, requires=requires)


def _parse(text: str) -> Iterator[tuple[str, str]]:
    """Names and targets of our group in an ``entry_points.txt``; ``ValueError`` where a line has none."""
    ours = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            ours = line == f"[{GROUP}]"
        elif ours and line and not line.startswith(("#", ";")):
            name, equals, target = line.partition("=")
            if not equals:
                raise ValueError(f"'{line}' is not of the form name = target")
            yield name.strip(), target.partition("[")[0].strip()  # extras in brackets are of the past


def _headers(read: Read) -> dict[str, list[str]]:
    """The headers of the metadata by their names in lower case; ``?`` where a damaged file has no name or version."""
    headers: dict[str, list[str]] = {}
    text = (read("METADATA") or read("PKG-INFO")).decode("utf-8", "replace").replace("\r\n", "\n")
    for line in text.partition("\n\n")[0].split("\n"):
        key, _, value = line.partition(":")
        headers.setdefault(key.lower(), []).append(value.strip())
    for key in ("name", "version"):
        if not headers.get(key, [""])[-1]:
            headers[key] = ["?"]
    return headers


def _normalized(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")
