"""Which releases have a kernel table, and what a user may call them."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.suggestions import printable

FIRST_WITH_MPS = Version("1.12")
SUFFIX = ".table"
UNPINNED_TORCHVISION = {"0.13.0": "==1.12.0", "0.13.1": "==1.12.1", "0.14.0": "==1.13.0", "0.14.1": "==1.13.1"}
"""Releases whose metadata asks for any torch; the pairs are those of the table in torchvision's README."""
LONGEST_VERSION = 40  # characters; packaging's parser is not asked about more


def data_folder() -> Traversable:
    """Where the data files lie."""
    return files("mpsprobe_coverage.kernels") / "data"


@functools.cache
def library_releases(library: str) -> tuple[str, ...]:
    """The releases of ``library`` (``torch`` or ``torchvision``) with a table, oldest first."""
    prefix = f"{library}-"
    names = (entry.name for entry in data_folder().iterdir())
    found = [n.removeprefix(prefix).removesuffix(SUFFIX) for n in names if n.startswith(prefix) and n.endswith(SUFFIX)]
    return tuple(sorted(found, key=Version))


def torch_releases() -> tuple[str, ...]:
    """The torch releases with a table, oldest first."""
    return library_releases("torch")


def latest() -> str:
    """The newest torch release with a table."""
    return torch_releases()[-1]


def resolve_release(text: str) -> str:
    """The torch release that ``text`` means.

    ``2.13.0``, ``v2.13.0``, ``2.13.0+cpu``, ``2.13`` (its newest patch) and ``latest`` are understood.

    Raises:
        UnknownName: there is no such release, or no table of it; carries the nearest ones.
        UsageError: a release from before MPS.
    """
    asked = text.strip()
    if asked.lower() == "latest":
        return latest()
    known = torch_releases()
    if len(asked) > LONGEST_VERSION:
        raise UnknownName("torch release", text, known)
    found = pick_release(asked, known)
    if found is not None:
        return found
    try:
        before_mps = Version(asked).release < FIRST_WITH_MPS.release
    except InvalidVersion:
        before_mps = False
    if before_mps:
        raise UsageError(
            f"torch {printable(asked)} has no MPS backend: MPS came with 1.12",
            f"Ask for a release from {known[0]} to {known[-1]}.",
        )
    raise UnknownName("torch release", text, known, _known_hint())


def pick_release(text: str, known: Sequence[str]) -> str | None:
    """The one of ``known`` (oldest first) that a version as people write it means, or None."""
    asked = text.strip()
    try:
        version = Version(asked) if len(asked) <= LONGEST_VERSION else None
    except InvalidVersion:
        return None
    if version is None:
        return None
    if version.public in known:
        return version.public
    if re.fullmatch(r"v?\d+\.\d+", asked, re.IGNORECASE):
        patches = [release for release in known if Version(release).release[:2] == version.release[:2]]
        return patches[-1] if patches else None
    return None


def _known_hint() -> str:
    known = torch_releases()
    return f"Kernel tables are there for {known[0]} to {known[-1]}: mpsprobe kernels list --torch all"


@functools.cache
def torchvision_for(torch_release: str) -> str | None:
    """The newest torchvision release made for ``torch_release``; ``None`` when there is none with a table."""
    from mpsprobe_coverage.kernels.store import load_table

    fitting = None
    for release in library_releases("torchvision"):
        required = UNPINNED_TORCHVISION.get(release) or load_table(release, "torchvision").requires_torch
        if torch_release in SpecifierSet(required):
            fitting = release
    return fitting
