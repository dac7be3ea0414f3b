"""What the metadata lacks and the sources import that they should not: nothing of the plugin runs here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

import mpsprobe
from mpsprobe.plugins.requirements import is_installed
from mpsprobe_devkit.checking.codes import Finding, finding
from mpsprobe_devkit.checking.public import PUBLIC_PARTS, is_public
from mpsprobe_devkit.checking.subject import FILE, OURS, Subject

LOWER_BOUNDS = {">=", ">", "==", "~=", "==="}


def judged_metadata(subject: Subject, not_checked: list[str]) -> Iterator[Finding]:
    """What the distribution does not say; what it depends on and is not here goes into ``not_checked``."""
    bounds = set()
    if subject.lacks:
        yield finding("missing-metadata", f"it lacks {', '.join(subject.lacks)}", subject.where)
    for text in subject.requires:
        try:
            one = Requirement(text)
        except InvalidRequirement:
            yield finding("bad-package", f"the dependency '{text}' is not a requirement", subject.where, "Correct it.")
            continue
        plain, ours = f"{one.name}{one.specifier}", one.name.lower() == OURS
        bounds |= {clause.operator for clause in one.specifier if ours}
        if not ours and (one.marker is None or one.marker.evaluate()) and not is_installed(plain):
            not_checked.append(f"what needs {plain}, which is not installed here")
    if subject.kind != FILE and OURS not in subject.packages and not bounds & LOWER_BOUNDS:
        hint = f'Add "{OURS}>={".".join(mpsprobe.__version__.split(".")[:2])}" to the dependencies.'
        message = f"the dependencies do not name {OURS} with a lower bound"
        yield finding("missing-metadata", message, subject.where, hint)


def judged_sources(subject: Subject) -> Iterator[Finding]:
    """Imports of what is private to mpsprobe; what lies in mpsprobe itself may import it."""
    hint = f"Import from the public modules: {', '.join(sorted(PUBLIC_PARTS - {''}))}."
    parts = {path.stem for path in Path(mpsprobe.__file__).parent.iterdir()}
    places = [root / package for root in {*subject.paths, subject.root} for package in subject.packages]
    found = [one for place in places for one in (sorted(place.rglob("*.py")) or [place.with_suffix(".py")])]
    for path in found if OURS not in subject.packages else ():
        try:
            tree = ast.parse(path.read_bytes(), str(path))
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # importing it says why
        for node in ast.walk(tree):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [one.name for one in node.names if node.module == OURS and one.name in parts]
                modules = [node.module, *(f"{OURS}.{one}" for one in names)]
            for one in modules:
                if one.partition(".")[0] == OURS and not is_public(one):
                    where = f"{path.relative_to(subject.root).as_posix()}:{getattr(node, 'lineno', 1)}"
                    yield finding("imports-private", f"{one} is not public", where, hint)
