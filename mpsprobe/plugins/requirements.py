"""What a plugin says it needs, compared with what is installed: ``mpsprobe>=0.2``, ``numpy>=2``.

Simple forms are read here: importing ``packaging`` costs as much as all of ``mpsprobe --help``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from itertools import zip_longest

from mpsprobe.version import __version__

CLAUSE = re.compile(r"(>=|<=|==|!=|>|<)\s*(\d{1,9}(?:\.\d{1,9})*)")
COMPARED = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
IN_NAMES = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
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

    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(text) for text in importlib.metadata.requires(distribution) or []]
        here = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    except (importlib.metadata.PackageNotFoundError, ValueError, RecursionError):
        return []
    return [plain for one in here if not is_installed(plain := f"{one.name}{one.specifier}")]


def specifier_of_ours(requirement: str) -> str | None:
    """``>=0.2`` of ``mpsprobe[all]>=0.2``; ``None`` for another distribution's, or one that does not apply here."""
    text, semicolon, marker = map(str.strip, requirement.partition(";"))
    rest = text.lstrip(IN_NAMES)
    if text.removesuffix(rest).lower() != OURS or (semicolon and not _applies(marker)):
        return None
    rest = rest.strip()
    if rest.startswith("["):
        rest = rest.partition("]")[2].strip()
    return rest.removeprefix("(").removesuffix(")").strip() or None


def _applies(marker: str) -> bool:
    if re.search(r"\bextra\b", marker):
        return False  # nobody says which extras were installed
    from packaging.markers import Marker

    try:
        return Marker(marker).evaluate()
    except (ValueError, RecursionError):  # ValueError: all that packaging raises, and a number of 5,000 digits
        return False


def _allows(specifier: str, version: str) -> bool:
    clauses = [CLAUSE.fullmatch(clause.strip()) for clause in specifier.split(",") if clause.strip()]
    if version.replace(".", "").isdecimal() and all(clauses):
        return all(_holds(version, *clause.groups()) for clause in clauses if clause is not None)
    from packaging.specifiers import SpecifierSet

    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except ValueError:
        return True


def _holds(version: str, comparison: str, bound: str) -> bool:
    parts = zip_longest(map(int, version.split(".")), map(int, bound.split(".")), fillvalue=0)
    ours, theirs = zip(*parts, strict=True)
    return bool(COMPARED[comparison](ours, theirs))
