"""Checks of the metadata and the sources: nothing of the plugin runs here."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

import mpsprobe
from mpsprobe import __version__
from mpsprobe.plugins.requirements import incompatibility, is_installed
from mpsprobe.suggestions import nearest
from mpsprobe_devkit.checking.findings import Finding, finding
from mpsprobe_devkit.checking.public import PUBLIC_PARTS, is_public
from mpsprobe_devkit.checking.sources import Imported, imports, package_of, parsed, python_files
from mpsprobe_devkit.checking.subject import FILE, INSTALLED, OURS, Metadata, Subject, normalized, top_level

WANTED = {
    "description": "the line that lists show",
    "readme": "the text of its page",
    "requires-python": "the versions that installers may choose",
    "license": "what others may do with it",
}
PRIVATE = "Private :: "  # a classifier that keeps a distribution from being published: nobody looks it up
LOWER_BOUNDS = {">=", ">", "==", "~=", "==="}


def judged_metadata(subject: Subject) -> Iterator[Finding]:
    """What the distribution does not say, and what it asks for that is not here."""
    metadata = subject.metadata
    if metadata is None:
        return
    requirements = list(_requirements(metadata.dependencies))
    if subject.kind != FILE:
        if not any(one.startswith(PRIVATE) for one in metadata.classifiers):
            lacking = [f"{field} ({what})" for field, what in WANTED.items() if field not in metadata.given]
            if lacking:
                yield finding("missing-metadata", f"it lacks {', '.join(lacking)}", metadata.where)
        if not subject.is_core:
            yield from _requires_ours(requirements, metadata)
    for text in metadata.dependencies:
        try:
            Requirement(text)
        except InvalidRequirement:
            yield finding("bad-pyproject", f"the dependency '{text}' is not a requirement", metadata.where)
    specifiers = [specifier for point in subject.entry_points for specifier in point.requires]
    if wrong := incompatibility(specifiers):
        yield finding("incompatible", wrong, metadata.where, "Check it with a version of mpsprobe that it asks for.")
    yield from _python(metadata)
    for one in requirements:
        if normalized(one.name) != OURS and not is_installed(f"{one.name}{one.specifier}"):
            installed = _version(one.name)
            here = f"and {installed} is installed" if installed else "which is not installed here"
            yield finding("requires-unmet", f"it needs {one.name}{one.specifier}, {here}", metadata.where)


def _requires_ours(requirements: list[Requirement], metadata: Metadata) -> Iterator[Finding]:
    release = ".".join(__version__.split(".")[:2])
    hint = f'Add "{OURS}>={release}" to the dependencies.'
    ours = [one for one in requirements if normalized(one.name) == OURS]
    if not ours:
        yield finding("requires-mpsprobe", f"the dependencies do not name {OURS}", metadata.where, hint)
    elif not any(specifier.operator in LOWER_BOUNDS for one in ours for specifier in one.specifier):
        yield finding("requires-mpsprobe", f"the dependency on {OURS} has no lower bound", metadata.where, hint)


def _python(metadata: Metadata) -> Iterator[Finding]:
    if not metadata.requires_python:
        return
    here = ".".join(map(str, sys.version_info[:3]))
    try:
        fits = SpecifierSet(metadata.requires_python).contains(here, prereleases=True)
    except InvalidSpecifier:
        message = f"requires-python is '{metadata.requires_python}', which is not a specifier like '>=3.11'"
        yield finding("bad-pyproject", message, metadata.where)
        return
    if not fits:
        message = f"it needs Python {metadata.requires_python}, and this is Python {here}"
        yield finding("incompatible", message, metadata.where, "Check it with a Python that it asks for.")


def _requirements(texts: Iterable[str]) -> Iterator[Requirement]:
    """Those that apply here, without extras."""
    for text in texts:
        try:
            found = Requirement(text)
        except InvalidRequirement:
            continue
        if found.marker is None or found.marker.evaluate({"extra": ""}):
            yield found


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None


# -- sources ---------------------------------------------------------------------------------------


def judged_sources(subject: Subject) -> Iterator[Finding]:
    """What the modules import that they should not, and a missing ``py.typed``."""
    if subject.is_core:
        return
    found: list[Imported] = []
    for path in python_files(subject):
        tree = parsed(path)
        if tree is not None:
            found += imports(path, tree, package_of(subject, path))
    for one in found:
        yield from _private(one, subject)
    yield from _undeclared(found, subject)
    for package in subject.packages:
        folder = next((root / package for root in (*subject.paths, subject.root) if (root / package).is_dir()), None)
        if folder is not None and subject.kind != FILE and not (folder / "py.typed").exists():
            yield finding("py-typed-missing", f"{package} has no py.typed", subject.relative(folder))


def _private(one: Imported, subject: Subject) -> Iterator[Finding]:
    if top_level(one.module) != OURS:
        return
    where = f"{subject.relative(one.path)}:{one.line}"
    wrong = []
    if one.module == OURS:
        parts = {path.stem for path in Path(mpsprobe.__file__).parent.iterdir() if path.suffix in {".py", ""}}
        wrong = [f"{OURS}.{name}" for name in one.names if name in parts and not is_public(f"{OURS}.{name}")]
    elif not is_public(one.module):
        wrong = [one.module]
    wrong += [f"{one.module}.{name}" for name in one.names if name.startswith("_") and not name.startswith("__")]
    near = nearest(one.module.removeprefix(OURS).lstrip("."), PUBLIC_PARTS - {""}, count=1)
    hint = f"Import from the public modules: {', '.join(sorted(PUBLIC_PARTS - {''}))}."
    if one.names == ("hookimpl",):
        hint = "Write: from mpsprobe import hookimpl"
    elif near:
        hint = f"Perhaps mpsprobe.{near[0]} has it. {hint}"
    for module in wrong:
        yield finding("imports-private", f"{module} is not public", where, hint)


def _undeclared(found: list[Imported], subject: Subject) -> Iterator[Finding]:
    """Packages that nothing declared provides; said only where everything declared is installed, so that it is sure."""
    metadata = subject.metadata
    if metadata is None:
        return
    own = _own(subject)
    declared = [name for text in (*metadata.dependencies, *metadata.optional) if (name := _name(text))]
    if not all(_version(name) for name in declared):
        return
    provided = _closure([subject.distribution, OURS, *declared])
    owners = _owners()
    reported = set()
    for one in found:
        package = top_level(one.module)
        if one.guarded or not package or package in own or package in reported or package in sys.stdlib_module_names:
            continue
        by = {normalized(name) for name in owners.get(package, ())}
        if not by and (normalized(package) in provided or _can_be_imported(package)):
            continue  # nobody knows whose it is: a distribution that is installed as a link lists no files
        if not by & provided and package != "__future__":
            reported.add(package)
            where = f"{subject.relative(one.path)}:{one.line}"
            here = f"here it comes with {' or '.join(sorted(by))}" if by else "and it is not installed here"
            yield finding("undeclared-dependency", f"{package} is imported and not a dependency; {here}", where)


def _can_be_imported(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _own(subject: Subject) -> set[str]:
    """Every module that the subject's folders hold: files next to a single file, packages next to the plugin's."""
    own = set(subject.packages)
    for root in subject.paths if subject.kind != INSTALLED else ():
        try:
            own |= {path.stem for path in root.iterdir() if path.is_dir() or path.suffix in {".py", ".so", ".pyd"}}
        except OSError:
            continue
    return {name.partition(".")[0] for name in own}


def _name(text: str) -> str | None:
    try:
        return Requirement(text).name
    except InvalidRequirement:
        return None


def _closure(names: Iterable[str]) -> set[str]:
    """The installed distributions that installing ``names`` brings, without extras of others."""
    seen: set[str] = set()
    waiting = [normalized(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            requires = importlib.metadata.requires(name) or []
        except (importlib.metadata.PackageNotFoundError, ValueError):
            continue
        waiting += [normalized(one.name) for one in _requirements(requires)]
    return seen


@functools.cache
def _owners() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


def static_heavy(tree: ast.Module, path: Path, package: str, heavy: frozenset[str], shown: str) -> Iterator[Finding]:
    """The heavy packages that the source of a thin module imports at its top."""
    reported = set()
    for one in imports(path, tree, package):
        name = top_level(one.module)
        if one.at_import and name in heavy and name not in reported:
            reported.add(name)
            place = f"{shown}:{one.line}"
            yield finding("heavy-import", f"importing the thin module imports {name}: {place} → {name}", place)
