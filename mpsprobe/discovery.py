"""Finds the installed plugins: the entry points of the group ``mpsprobe``. Imports none of them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass

from mpsprobe import __version__

GROUP = "mpsprobe"


@dataclass(frozen=True, slots=True)
class FoundPlugin:
    """One entry point, not imported yet.

    Attributes:
        name: of the entry point; what ``-p no:NAME`` takes.
        distribution: what ``pip`` calls the package that it came with.
        version: of that distribution.
        target: ``"package.module"`` or ``"package.module:attribute"``.
        problem: why it cannot even be tried, or ``None``.
    """

    name: str
    distribution: str
    version: str
    target: str
    problem: str | None = None

    @property
    def owner(self) -> str:
        """Distribution and version, as messages name it."""
        return f"{self.distribution} {self.version}"


# The commands of the core are declared by a plugin like any other, except that it is there without
# an entry point: a broken or missing metadata folder must not take `mpsprobe plugins list` away.
CORE = FoundPlugin(name="core", distribution="mpsprobe", version=__version__, target="mpsprobe.cli.plugin")


def find_plugins() -> list[FoundPlugin]:
    """``CORE`` and every installed plugin, sorted by distribution and name."""
    try:
        entry_points = list(importlib.metadata.entry_points(group=GROUP))
    except Exception:  # noqa: BLE001 - one unreadable metadata folder anywhere breaks the whole answer
        found = list(_find_one_by_one())
    else:
        found = [_describe(entry_point, entry_point.dist) for entry_point in entry_points]
    return [CORE, *sorted(found, key=lambda plugin: (plugin.distribution, plugin.name))]


def _find_one_by_one() -> Iterator[FoundPlugin]:
    """As ``importlib.metadata.entry_points``, surviving metadata that cannot be read."""
    seen: set[str] = set()
    for distribution in importlib.metadata.distributions():
        name, version = _name_and_version(distribution)
        normalized = name.lower().replace("-", "_").replace(".", "_")
        if normalized in seen:
            continue
        seen.add(normalized)
        try:
            entry_points = [point for point in distribution.entry_points if point.group == GROUP]
        except Exception as error:  # noqa: BLE001 - whatever a damaged file makes the parser raise
            if _mentions_group(distribution):
                problem = f"its entry_points.txt cannot be read: {error}"
                yield FoundPlugin("?", name, version, "", problem)
            continue
        for entry_point in entry_points:
            yield _describe(entry_point, distribution)


def _mentions_group(distribution: importlib.metadata.Distribution) -> bool:
    try:
        text = distribution.read_text("entry_points.txt")
    except (OSError, UnicodeError):
        # Unreadable: only its name can tell whether it meant to be one of ours.
        return _name_and_version(distribution)[0].startswith(GROUP)
    return f"[{GROUP}]" in (text or "")


def _describe(
    entry_point: importlib.metadata.EntryPoint, distribution: importlib.metadata.Distribution | None
) -> FoundPlugin:
    name, version = _name_and_version(distribution)
    return FoundPlugin(entry_point.name, name, version, entry_point.value)


def _name_and_version(distribution: importlib.metadata.Distribution | None) -> tuple[str, str]:
    """Both are ``?`` where the metadata does not say: a missing METADATA file is no reason to fail."""
    if distribution is None:
        return "?", "?"
    try:
        metadata = distribution.metadata
        name, version = metadata["Name"], metadata["Version"]
    except Exception:  # noqa: BLE001 - Python 3.11 to 3.14 raise different things here
        return "?", "?"
    return str(name or "?"), str(version or "?")
