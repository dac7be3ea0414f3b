"""What a plugin says it needs, held against what is installed: ``mpsprobe>=0.2``, ``numpy>=2``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mpsprobe import __version__

PLAIN_VERSION = re.compile(r"\d+(\.\d+)*")
PLAIN_CLAUSE = re.compile(r"(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)*)")
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
OURS = "mpsprobe"


def incompatibility(requirements: Iterable[str], version: str = __version__) -> str | None:
    """Why a plugin with ``requirements`` on mpsprobe does not fit ``version``; ``None`` if it does.

    Args:
        requirements: specifiers only, as ``>=0.2,<1``; one that cannot be read is passed over, as pip let it in.
    """
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

    from packaging.requirements import InvalidRequirement, Requirement

    lacking = []
    try:
        requirements = importlib.metadata.requires(distribution) or []
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return []
    for text in requirements:
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            plain = f"{wanted.name}{wanted.specifier}"
            if not is_installed(plain):
                lacking.append(plain)
    return lacking


def specifier_of_ours(requirement: str) -> str | None:
    """``>=0.2`` of ``mpsprobe[testing]>=0.2``; ``None`` for another distribution's, or one that does not apply here.

    The simple forms are read here: importing ``packaging`` costs as much as all of ``mpsprobe --help``.
    """
    text, semicolon, marker = requirement.partition(";")
    match = NAME.match(text.strip())
    if match is None or match.group().lower().replace("_", "-") != OURS:
        return None
    if semicolon and not _applies(marker):
        return None
    rest = text.strip()[match.end() :].strip()
    if rest.startswith("["):
        rest = rest.partition("]")[2].strip()
    return rest.removeprefix("(").removesuffix(")").strip() or None


def _applies(marker: str) -> bool:
    if re.search(r"\bextra\b", marker):
        return False  # nobody says which extras were installed
    from packaging.markers import InvalidMarker, Marker

    try:
        return Marker(marker.strip()).evaluate()
    except InvalidMarker:
        return False


def _allows(specifier: str, version: str) -> bool:
    clauses = [clause.strip() for clause in specifier.split(",") if clause.strip()]
    plain = [PLAIN_CLAUSE.fullmatch(clause) for clause in clauses]
    if PLAIN_VERSION.fullmatch(version) and all(plain):
        return all(_holds(version, *match.groups()) for match in plain if match is not None)
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidSpecifier:
        return True


def _holds(version: str, operator: str, bound: str) -> bool:
    ours, theirs = ([int(part) for part in text.split(".")] for text in (version, bound))
    longest = max(len(ours), len(theirs))
    ours += [0] * (longest - len(ours))
    theirs += [0] * (longest - len(theirs))
    return {
        ">=": ours >= theirs,
        "<=": ours <= theirs,
        "==": ours == theirs,
        "!=": ours != theirs,
        ">": ours > theirs,
        "<": ours < theirs,
    }[operator]
