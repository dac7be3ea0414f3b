"""What a plugin says it needs, compared with what is installed: ``mpsprobe>=0.2``, ``numpy>=2``.

``packaging`` does it. To import that takes 14 ms, so what nearly every plugin says is known to fit without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mpsprobe.version import __version__

OURS = re.compile(r"(?is)\s*mpsprobe(?![\w.-])\s*(\[[^]]*\])?\s*\(?(?P<specifier>[^;)]*)\)?\s*(;(?P<marker>.*))?")
AT_LEAST = re.compile(r">=\s*(\d{1,9}(\.\d{1,9})*)")


def incompatibility(requirements: Iterable[str], version: str = __version__) -> str | None:
    """Why a plugin with ``requirements`` (``>=0.2,<1``) on mpsprobe does not fit ``version``; ``None`` if it does."""
    for specifier in requirements:
        if not _allows(specifier, version):
            return f"it needs mpsprobe {specifier.strip()}, and this is mpsprobe {version}"
    return None


def is_installed(requirement: str) -> bool:
    """Whether the distribution is there in a version that ``requirement`` (``"name>=1"``) allows."""
    import importlib.metadata

    from packaging.requirements import InvalidRequirement, Requirement

    try:
        wanted = Requirement(requirement)
        return wanted.specifier.contains(importlib.metadata.version(wanted.name), prereleases=True)
    except (importlib.metadata.PackageNotFoundError, InvalidRequirement):
        return False


def unmet(distribution: str) -> list[str]:
    """The requirements of an installed ``distribution`` that this environment does not meet; extras are left out."""
    import importlib.metadata

    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(text) for text in importlib.metadata.requires(distribution) or []]
        here = [needed for needed in wanted if needed.marker is None or needed.marker.evaluate({"extra": ""})]
    except (importlib.metadata.PackageNotFoundError, ValueError, RecursionError):
        return []
    return [plain for needed in here if not is_installed(plain := f"{needed.name}{needed.specifier}")]


def specifier_of_ours(requirement: str) -> str | None:
    """``>=0.2`` of ``mpsprobe[all]>=0.2``; ``None`` for another distribution's, or one that does not apply here."""
    ours = OURS.fullmatch(requirement)
    if ours is None or (ours["marker"] is not None and not _applies(ours["marker"])):
        return None
    return ours["specifier"].strip() or None


def _applies(marker: str) -> bool:
    if re.search(r"\bextra\b", marker):
        return False  # nobody says which extras were installed
    from packaging.markers import Marker

    try:
        return Marker(marker).evaluate()
    except (ValueError, RecursionError):  # ValueError: all that packaging raises, and a number of 5,000 digits
        return False


def _allows(specifier: str, version: str) -> bool:
    lowest = AT_LEAST.fullmatch(specifier.strip())
    if specifier == f"=={version}" or (lowest and _release(version) >= _release(lowest[1])):
        return True
    from packaging.specifiers import SpecifierSet

    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except ValueError:
        return True  # pip let it in


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a plain version, which can be compared; nothing of another one."""
    return tuple(map(int, version.split("."))) if version.replace(".", "").isdecimal() else ()
