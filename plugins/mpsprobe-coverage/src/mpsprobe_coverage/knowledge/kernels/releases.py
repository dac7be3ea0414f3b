"""Which releases have a kernel table, what a user may call them, and which torch is installed."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable

from packaging.version import InvalidVersion, Version

from mpsprobe.errors import MissingPackage, UsageError

INSTALLED = "installed"
SUFFIX = ".table"
LONGEST_VERSION = 40  # characters; packaging's parser is not asked about more


def data_folder() -> Traversable:
    return files("mpsprobe_coverage.knowledge.kernels") / "data"


@functools.cache
def library_releases(library: str, suffix: str = SUFFIX) -> tuple[str, ...]:
    """The releases of ``library`` (``torch`` or ``torchvision``) with a data file of that kind, oldest first."""
    form = re.compile(f"{re.escape(library)}-(.*){re.escape(suffix)}")
    matches = (form.fullmatch(entry.name) for entry in data_folder().iterdir())
    return tuple(sorted((match[1] for match in matches if match is not None), key=Version))


def torch_releases() -> tuple[str, ...]:
    return library_releases("torch")


@functools.cache
def installed_release() -> str:
    """The version of torch that is installed, without a local part; nothing is imported."""
    try:
        return Version(importlib.metadata.version("torch")).public
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingPackage("the release 'installed'", "torch") from error
    except InvalidVersion as error:
        raise UsageError(f"the installed torch has an unreadable version: {error}") from error


def as_version(text: str) -> Version | None:
    try:
        return Version(text) if len(text) <= LONGEST_VERSION else None
    except InvalidVersion:
        return None


def pick_release(text: str, known: Sequence[str]) -> str | None:
    """The one of ``known`` (oldest first) that a version as people write it means, or None."""
    version = as_version(text.strip())
    if version is None:
        return None
    if version.public in known:
        return version.public
    if re.fullmatch(r"v?\d+\.\d+", text.strip(), re.IGNORECASE):
        patches = [release for release in known if Version(release).release[:2] == version.release[:2]]
        return patches[-1] if patches else None
    return None


def since_without_gap(releases: Sequence[str], holds: Callable[[str], bool]) -> str | None:
    """The first of ``releases``, oldest first, from which on ``holds``; None if not in the newest.

    Asked from the newest down, no further than to the first where it does not hold.
    """
    since = None
    for release in reversed(releases):
        if not holds(release):
            break
        since = release
    return since
