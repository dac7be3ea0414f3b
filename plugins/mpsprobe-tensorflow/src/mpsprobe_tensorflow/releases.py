"""Which release of the plugin is judged, and which TensorFlow goes with it."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

from packaging.version import Version

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.suggestions import printable
from mpsprobe_tensorflow.tables import table

if TYPE_CHECKING:
    from collections.abc import Sequence

INSTALLED, LATEST, ALL = "installed", "latest", "all"
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
    return sorted({_one(part, known) for part in parts}, key=Version)


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


def _one(text: str, known: Sequence[str]) -> str:
    if text == LATEST:
        return known[-1]
    if text == INSTALLED:
        there = installed()
        older = [one for one in known if there is not None and Version(one) <= Version(there)]
        return older[-1] if older else known[0] if there is not None else known[-1]
    fitting = [one for one in known if one == text or one.startswith(f"{text}.")]
    if not fitting:
        raise UnknownName("release of tensorflow-metal", text, known, f"There are: {', '.join(known)}.")
    return fitting[-1]
