"""Which release of the plugin is judged, and which TensorFlow goes with it."""

from __future__ import annotations

import importlib.metadata

from packaging.version import Version

from mpsprobe.errors import UsageError
from mpsprobe.suggestions import printable
from mpsprobe_tensorflow.tables import table

INSTALLED, ALL = "installed", "all"
DISTRIBUTION = table.PLUGIN


def chosen(text: str) -> list[str]:
    """``--release`` as exact releases, oldest first.

    ``installed`` is the plugin that is installed, and the newest one where none is. Of one without a table, the nearest
    older one is taken.

    Raises:
        UsageError: there is no such release.
    """
    known = list(table.releases())
    if text == ALL:
        return known
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError("--release needs a release", f"For example {known[-1]}, installed, latest or all.")
    return sorted({_one(part) for part in parts}, key=Version)


def notes(release: str) -> list[str]:
    """What a reader should know of a release that was judged."""
    there = installed()
    if there is None:
        return [f"{DISTRIBUTION} is not installed here: nothing was run with it"]
    if there not in table.releases():
        return [f"there is no table of the installed {DISTRIBUTION} {printable(there)}: that of {release} was taken"]
    return []


def installed() -> str | None:
    """The release of the plugin that is installed."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return None


def nearest() -> str | None:
    """The release of the table for the installed plugin: its own, the nearest older one, or the oldest."""
    there = installed()
    if there is None:
        return None
    older = [one for one in table.releases() if Version(one) <= Version(there)]
    return older[-1] if older else table.releases()[0]


def _one(text: str) -> str:
    return nearest() or table.resolve(table.LATEST) if text == INSTALLED else table.resolve(text)
