"""Finds the installed plugins: the entry points of the group ``mpsprobe``. Imports none of them.

Two ways give the same answer, and a test compares them. Where everything on ``sys.path`` is a folder, the metadata
folders are read here: importing ``importlib.metadata`` costs a fifth of ``mpsprobe --help``, because of the mail parser
that it brings. Where there is a zip file or an import hook with distributions of its own, ``importlib.metadata`` is
asked.
"""

# ruff: noqa: PTH113, PTH118, PTH122, PTH208
# Importing pathlib costs more than all that is asked of it here.
from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from mpsprobe.plugins.requirements import specifier_of_ours
from mpsprobe.version import __version__

GROUP = "mpsprobe"
METADATA_FILES = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}


@dataclass(frozen=True, slots=True)
class FoundPlugin:
    """One entry point, not imported yet.

    Attributes:
        name: of the entry point; what ``-p no:NAME`` takes.
        distribution: what ``pip`` calls the package that it came with.
        version: of that distribution.
        target: ``"package.module"`` or ``"package.module:attribute"``.
        problem: why it cannot even be tried, or ``None``.
        requires: which versions of mpsprobe its metadata asks for, as specifiers (``>=0.1,<1``).
        file: the path of a single file (``--plugins-dir``), whose module is then called ``target``; else ``None``.
    """

    name: str
    distribution: str
    version: str
    target: str
    problem: str | None = None
    requires: tuple[str, ...] = ()
    file: str | None = None

    @property
    def owner(self) -> str:
        """Distribution and version, as messages name it; of a single file its name."""
        return f"{self.distribution} {self.version}".strip()


# The commands of the core are declared by a plugin like any other, except that it is there without
# an entry point: a broken or missing metadata folder must not take `mpsprobe plugins list` away.
CORE = FoundPlugin(name="core", distribution="mpsprobe", version=__version__, target="mpsprobe.cli.plugin")


def find_plugins() -> list[FoundPlugin]:
    """``CORE`` and every installed plugin, sorted by distribution and name."""
    found = _from_folders() if _only_folders() else _from_importlib()
    return [CORE, *sorted(found, key=lambda plugin: (plugin.distribution, plugin.name))]


def installed(names: Collection[str]) -> dict[str, tuple[str, str]]:
    """Which of the distributions ``names`` are installed → version, and the text of ``direct_url.json`` or nothing.

    That file says whether one is edited in place. It takes a tenth of importlib's time.
    """
    found = {}
    if not _only_folders():
        import importlib.metadata

        for name in names:
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                known = importlib.metadata.distribution(name)
                found[name] = known.version, known.read_text("direct_url.json") or ""
        return found
    wanted = {_normalized(name): name for name in names}
    for normalized, folder, file in _metadata_folders():
        if normalized in wanted:
            _, version, _ = _read_metadata(os.path.join(folder, file))
            direct_url = _read(os.path.join(folder, "direct_url.json")).decode("utf-8", "replace")
            found[wanted[normalized]] = version, direct_url
    return found


def _only_folders() -> bool:
    """Whether the metadata of everything importable lies in plain folders on ``sys.path``."""
    if any(os.path.isfile(entry) or entry.endswith(".egg") for entry in sys.path):
        return False
    others = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") != "PathFinder"]
    return not any(hasattr(finder, "find_distributions") for finder in others)


def _from_folders() -> Iterator[FoundPlugin]:
    for _, folder, file in _metadata_folders():
        yield from _from_folder(folder, file)


def _metadata_folders() -> Iterator[tuple[str, str, str]]:
    """Of each distribution its name without signs, the folder with its metadata, and the file of it with its name."""
    seen: set[str] = set()
    for entry in sys.path:
        try:
            names = sorted(name for name in os.listdir(entry or ".") if name.endswith(tuple(METADATA_FILES)))
        except OSError:
            continue
        for name in names:
            stem, suffix = os.path.splitext(name)
            normalized = _normalized(stem.partition("-")[0])
            if normalized not in seen:  # what comes first on sys.path hides the rest
                seen.add(normalized)
                yield normalized, os.path.join(entry, name), METADATA_FILES[suffix]


def _from_folder(folder: str, metadata_file: str) -> Iterator[FoundPlugin]:
    """The entry points in one metadata folder; a file that cannot be read is a plugin with a problem."""
    content = _read(os.path.join(folder, "entry_points.txt"))
    if GROUP.encode() not in content:
        return
    name, version, requires = _read_metadata(os.path.join(folder, metadata_file))
    try:
        points = list(_parse(content.decode("utf-8")))
    except ValueError as error:
        yield FoundPlugin("?", name, version, "", f"its entry_points.txt cannot be read: {error}")
        return
    for point, target in points:
        yield FoundPlugin(point, name, version, target, requires=requires)


def _read(path: str) -> bytes:
    """A file; nothing where there is none that can be read."""
    try:
        with open(path, "rb", opener=_at_once) as file:
            return file.read()
    except OSError:
        return b""


def _at_once(path: str, flags: int) -> int:
    """Opens without waiting for somebody who writes, where it is a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _parse(text: str) -> Iterator[tuple[str, str]]:
    """Names and targets of our group in an ``entry_points.txt``.

    Raises:
        ValueError: a line of our group is not of the form ``name = target``.
    """
    ours = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            ours = line == f"[{GROUP}]"
        elif ours and line and not line.startswith(("#", ";")):
            name, equals, target = line.partition("=")
            if not equals:
                raise ValueError(f"'{line}' is not of the form name = target")
            yield name.strip(), target.partition("[")[0].strip()  # extras in brackets are of the past


def _read_metadata(path: str) -> tuple[str, str, tuple[str, ...]]:
    """Name, version, and what it requires of mpsprobe; ``?`` and nothing where a damaged file does not say."""
    found: dict[str, list[str]] = {}
    try:
        with open(path, encoding="utf-8", errors="replace", opener=_at_once) as file:
            for line in iter(file.readline, "\n"):  # the headers end with an empty line
                if not line:
                    break
                key, _, value = line.partition(":")
                found.setdefault(key.lower(), []).append(value.strip())
    except OSError:
        pass
    name, version = (found.get(key, [""])[-1] or "?" for key in ("name", "version"))
    return name, version, _of_ours(found.get("requires-dist", ()))


def _of_ours(requirements: Iterable[str]) -> tuple[str, ...]:
    return tuple(found for one in requirements if (found := specifier_of_ours(one)) is not None)


def _normalized(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _from_importlib() -> Iterator[FoundPlugin]:
    """One distribution at a time: ``importlib.metadata.entry_points`` fails as a whole on a damaged file."""
    import importlib.metadata

    seen: set[str] = set()
    for distribution in importlib.metadata.distributions():
        try:
            text = distribution.read_text("entry_points.txt") or ""
            metadata = distribution.metadata
            name, version = str(metadata["Name"] or "?"), str(metadata["Version"] or "?")
            points = list(_parse(text))
            requires = _of_ours(distribution.requires or ())
        except Exception:  # noqa: BLE001 - Python 3.11 to 3.14 raise different things; without a name it is nobody's
            continue
        if _normalized(name) not in seen:
            seen.add(_normalized(name))
            yield from (FoundPlugin(point, name, version, target, requires=requires) for point, target in points)
