"""Reads a folder with a ``pyproject.toml`` as a subject. The project need not be installed, and nothing of it runs."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mpsprobe.errors import UsageError
from mpsprobe.plugins.discovery import CORE, GROUP
from mpsprobe.suggestions import nearest, printable
from mpsprobe_devkit.checking.findings import finding
from mpsprobe_devkit.checking.subject import (
    FOLDER,
    OURS,
    Metadata,
    Subject,
    entry_points,
    module_of,
    normalized,
    top_level,
)

FILE = "pyproject.toml"
LARGEST = 1_000_000  # bytes; the largest that people write have a tenth of it
KEYS_OF_METADATA = ("description", "readme", "requires-python", "license", "version", "classifiers")


def read_project(folder: Path, shown: str) -> Subject:
    """The project in ``folder``.

    Raises:
        UsageError: there is no ``pyproject.toml``, or it cannot be read.
    """
    subject = Subject(FOLDER, shown, root=folder, distribution=folder.resolve().name)
    data, problem = _read(folder, shown)
    project = data.get("project")
    if problem is None and not isinstance(project, dict):
        problem = "it has no [project] table"
        if isinstance(_at(data, "tool", "poetry"), dict):
            problem += " (only [tool.poetry], which Poetry 2 no longer needs)"
    if problem is not None or not isinstance(project, dict):
        subject.findings.append(finding("bad-pyproject", f"{FILE}: {problem}", FILE))
        return subject
    dynamic = _texts(project.get("dynamic"))
    name = project.get("name")
    if isinstance(name, str) and name.strip():
        subject.distribution = name
    else:
        subject.findings.append(finding("bad-pyproject", "the [project] table has no name", FILE))
    subject.version = str(project.get("version", "dynamic" if "version" in dynamic else "?"))
    if subject.version == "?":
        message = "the [project] table has no version, and does not say that it is dynamic"
        subject.findings.append(finding("bad-pyproject", message, FILE, 'Add: version = "0.1.0"'))
    subject.metadata = _metadata(project, dynamic)
    subject.paths = tuple(import_roots(folder, data))
    _add_entry_points(subject, project, dynamic)
    entered = {top_level(module_of(one.target)) for one in subject.entry_points}
    packages = [Path(one).name for one in _texts(_hatch(data, "packages"))]
    subject.packages = tuple(dict.fromkeys([*sorted(entered), *packages]))
    return subject


def _read(folder: Path, shown: str) -> tuple[dict[str, Any], str | None]:
    path = folder / FILE
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except FileNotFoundError:
        hint = "Name the folder of a plugin's project, or make one: mpsprobe plugins new NAME"
        if any(os.path.lexists(folder / one) for one in ("setup.py", "setup.cfg")):
            hint = "Describe the project in a [project] table, or install it and check it by its name."
        raise UsageError(f"'{printable(shown)}' holds no {FILE}", hint) from None
    except OSError as error:
        raise UsageError(f"{FILE} in '{printable(shown)}' cannot be read: {error.strerror}") from error
    if len(content) > LARGEST:
        return {}, f"it is larger than {LARGEST:,} bytes"
    try:
        return tomllib.loads(content.decode("utf-8")), None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        return {}, f"it is not TOML: {error}"


def _add_entry_points(subject: Subject, project: dict[str, Any], dynamic: list[str]) -> None:
    if normalized(subject.distribution) == OURS:  # its own plugin needs no entry point
        subject.entry_points = (CORE,)
        return
    groups = project.get("entry-points", {})
    group = groups.get(GROUP, {}) if isinstance(groups, dict) else None
    if not isinstance(groups, dict) or not isinstance(group, dict):
        message = f"entry-points.{GROUP} should be a table of names and modules"
        subject.findings.append(finding("bad-pyproject", message, FILE))
        return
    dependencies = subject.metadata.dependencies if subject.metadata else ()
    declared = {str(name): target for name, target in group.items()}
    subject.entry_points, wrong = entry_points(declared, subject.distribution, subject.version, dependencies, FILE)
    subject.findings += wrong
    if group:
        return
    hint = None
    if "entry-points" in dynamic:
        hint = "They are dynamic, which only the build knows: install it and check it by its name, or check its wheel."
    elif near := nearest(GROUP, [str(one) for one in groups], count=1):
        hint = f"There is a group '{near[0]}'; it should be called '{GROUP}'."
    subject.findings.append(finding("no-entry-point", f"there is no [project.entry-points.{GROUP}]", FILE, hint))


def _metadata(project: dict[str, Any], dynamic: list[str]) -> Metadata:
    given = {key for key in KEYS_OF_METADATA if project.get(key)} | set(dynamic)
    if "license-files" in project or any(one.startswith("License ::") for one in _texts(project.get("classifiers"))):
        given.add("license")
    extras = project.get("optional-dependencies")
    return Metadata(
        where=FILE,
        given=frozenset(given),
        dependencies=tuple(_texts(project.get("dependencies"))),
        optional=tuple(one for extra in extras.values() for one in _texts(extra)) if isinstance(extras, dict) else (),
        classifiers=tuple(_texts(project.get("classifiers"))),
        requires_python=str(project.get("requires-python") or ""),
    )


def import_roots(folder: Path, data: dict[str, Any]) -> list[Path]:
    """The folders that hold the packages: what the build's settings say, then ``src``, then the folder itself."""
    named = [*_roots_of_hatch(data), *_roots_of_others(data), "src", "."]
    roots = (Path(os.path.normpath(folder.resolve() / one)) for one in named)
    return list(dict.fromkeys(root for root in roots if os.path.isdir(root)))  # noqa: PTH112 - no exception


def _roots_of_hatch(data: dict[str, Any]) -> Iterator[str]:
    for package in _texts(_hatch(data, "packages")):
        yield str(Path(package).parent)
    sources = _hatch(data, "sources")
    yield from _texts(sources if isinstance(sources, list) else list(sources) if isinstance(sources, dict) else [])


def _roots_of_others(data: dict[str, Any]) -> Iterator[str]:
    yield from _texts([_at(data, "tool", "setuptools", "package-dir", "")])
    yield from _texts(_at(data, "tool", "setuptools", "packages", "find", "where"))
    for package in _list(_at(data, "tool", "poetry", "packages")):
        yield from _texts([_at(package, "from")])
    yield from _texts([_at(data, "tool", "pdm", "build", "package-dir")])
    yield from _texts([_at(data, "tool", "uv", "build-backend", "module-root")])
    yield from _texts([_at(data, "tool", "maturin", "python-source")])


def _hatch(data: dict[str, Any], key: str) -> Any:
    build = _at(data, "tool", "hatch", "build")
    found = _at(build, "targets", "wheel", key)
    return found if found is not None else _at(build, key)


def _at(data: Any, *keys: str) -> Any:
    """``data[key][key]…``; ``None`` where a table is missing or is something else."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [one for one in _list(value) if isinstance(one, str)]
