"""Reads a wheel, an installed distribution or a single file as a subject."""

from __future__ import annotations

import configparser
import dataclasses
import email.message
import email.parser
import importlib.metadata
import importlib.util
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.plugins.discovery import CORE, GROUP, FoundPlugin, find_plugins
from mpsprobe.plugins.plugin_files import find_in_folders, inline_metadata
from mpsprobe.suggestions import printable
from mpsprobe_devkit.checking.findings import finding
from mpsprobe_devkit.checking.subject import (
    FILE,
    INSTALLED,
    WHEEL,
    Metadata,
    Subject,
    entry_points,
    module_of,
    normalized,
    top_level,
)

LARGEST_WHEEL = 1_000_000_000  # bytes, unpacked; torch itself has about this
MOST_MEMBERS = 50_000
EXTRA = re.compile(r"extra\s*==")


def read_wheel(path: Path, shown: str, unpacked: Path) -> Subject:
    """The wheel at ``path``, unpacked into the folder ``unpacked`` if it is sound enough for that.

    Raises:
        UsageError: it cannot be read.
    """
    subject = Subject(WHEEL, shown, distribution=path.name.partition("-")[0], root=unpacked, paths=(unpacked,))
    try:
        with zipfile.ZipFile(path) as archive:
            problem = _problem(archive)
            if problem is None:
                archive.extractall(unpacked)
    except OSError as error:
        raise UsageError(f"'{printable(shown)}' cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError) as error:
        problem = f"it is not a zip file that can be read: {error}"
    except Exception as error:  # noqa: BLE001 - zlib and lzma have errors of their own
        problem = f"it is damaged: {type(error).__name__}: {error}"
    infos = [] if problem else sorted(unpacked.glob("*.dist-info"))
    if problem is None and len(infos) != 1:
        problem = f"it has {len(infos)} folders *.dist-info instead of one"
    if problem is not None:
        subject.findings.append(finding("bad-wheel", f"{path.name}: {problem}", path.name))
        return subject
    _fill_in(subject, importlib.metadata.PathDistribution(infos[0]), f"{infos[0].name}/METADATA")
    return subject


def _problem(archive: zipfile.ZipFile) -> str | None:
    """Why ``archive`` is not unpacked."""
    members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        return f"it has {len(members):,} members, more than {MOST_MEMBERS:,}"
    if sum(one.file_size for one in members) > LARGEST_WHEEL:
        return f"it would have more than {LARGEST_WHEEL:,} bytes unpacked"
    for one in members:
        path = PurePosixPath(one.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in one.filename or ":" in one.filename:
            return f"its member '{one.filename}' would be written elsewhere"
    return None


def read_installed(name: str, shown: str, others: Iterable[str] = ()) -> Subject:
    """The installed plugin or distribution called ``name``.

    Args:
        others: more names that could have been meant, for the message.

    Raises:
        UnknownName: there is none.
    """
    found = find_plugins()
    wanted = [one for one in found if name == one.name] or [
        one for one in found if normalized(name) == normalized(one.distribution)
    ]
    distribution = wanted[0].distribution if wanted else name
    subject = Subject(INSTALLED, shown, distribution=distribution)
    try:
        metadata = importlib.metadata.distribution(distribution)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        if not wanted and Path(name).is_dir():
            raise UsageError(
                f"the folder '{printable(name)}' has no pyproject.toml, so it is not a package",
                "Plugins of one file are checked one by one: name the .py file.",
            ) from None
        if not wanted:
            known = {known for one in found for known in (one.name, one.distribution)} | set(others)
            hint = "A folder, a .py file, a wheel or the name of an installed plugin can be checked."
            raise UnknownName("plugin", name, known, hint) from None
        metadata = None
    if metadata is not None:
        _fill_in(subject, metadata, f"METADATA of {distribution}")
    problems = [one for one in wanted if one.problem]
    subject.findings += [finding("bad-entry-point", str(one.problem), "entry_points.txt") for one in problems]
    if CORE in wanted:
        subject.entry_points, subject.findings = (CORE,), []
    if chosen := [one for one in wanted if one.name == name and not one.problem]:
        subject.entry_points = tuple(chosen)
    subject.packages = _packages(subject.entry_points)
    subject.root = _root(subject.packages) or subject.root
    return subject


def _root(packages: Iterable[str]) -> Path | None:
    """The folder that holds the first of ``packages``; finding it imports nothing."""
    for package in packages:
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            continue
        if spec is not None and spec.submodule_search_locations:
            return Path(next(iter(spec.submodule_search_locations))).parent
        if spec is not None and spec.origin:
            return Path(spec.origin).parent
    return None


def _packages(points: Iterable[FoundPlugin]) -> tuple[str, ...]:
    return tuple(sorted({top_level(module_of(one.target)) for one in points}))


def _fill_in(subject: Subject, distribution: importlib.metadata.Distribution, where: str) -> None:
    """What the metadata of an installed or built distribution says."""
    headers = email.parser.Parser().parsestr(
        distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    )
    subject.distribution = _header(headers, "Name") or subject.distribution
    subject.version = _header(headers, "Version") or subject.version
    subject.metadata = _metadata(headers, where)
    declared = _declared(distribution.read_text("entry_points.txt") or "")
    if declared is None:
        subject.findings.append(finding("bad-entry-point", "entry_points.txt cannot be read", "entry_points.txt"))
        return
    dependencies = subject.metadata.dependencies
    subject.entry_points, wrong = entry_points(declared, subject.distribution, subject.version, dependencies, where)
    subject.findings += wrong
    subject.packages = _packages(subject.entry_points)
    if not declared:
        message = f"{subject.distribution} has no entry point in the group '{GROUP}'"
        subject.findings.append(finding("no-entry-point", message, "entry_points.txt"))


def _declared(text: str) -> dict[str, str] | None:
    """Names and targets of our group; ``None`` where the file cannot be read."""
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(text)
    except configparser.Error:
        return None
    return {name: target.partition("[")[0].strip() for name, target in parser.items(GROUP)} if GROUP in parser else {}


def _metadata(headers: email.message.Message, where: str) -> Metadata:
    classifiers = tuple(map(str, headers.get_all("Classifier") or ()))
    payload = headers.get_payload()
    license_given = any(_header(headers, key) for key in ("License-Expression", "License", "License-File"))
    present = {
        "description": bool(_header(headers, "Summary")),
        "readme": bool(_header(headers, "Description") or (isinstance(payload, str) and payload.strip())),
        "requires-python": bool(_header(headers, "Requires-Python")),
        "license": license_given or any(one.startswith("License ::") for one in classifiers),
        "version": bool(_header(headers, "Version")),
    }
    requirements = [str(one) for one in headers.get_all("Requires-Dist") or ()]
    return Metadata(
        where=where,
        given=frozenset(key for key, there in present.items() if there),
        dependencies=tuple(one for one in requirements if not EXTRA.search(one)),
        optional=tuple(one for one in requirements if EXTRA.search(one)),
        classifiers=classifiers,
        requires_python=_header(headers, "Requires-Python"),
    )


def _header(headers: email.message.Message, key: str) -> str:
    value = str(headers.get(key) or "").strip()
    return "" if value == "UNKNOWN" else value  # what old builds of setuptools wrote for nothing


def read_single_file(path: Path, shown: str) -> Subject:
    """The file at ``path``, taken as ``--plugins-dir`` would take it.

    Raises:
        UsageError: it cannot be read.
    """
    path = path.resolve()
    subject = Subject(FILE, shown, distribution=path.name, version="", root=path.parent, packages=(path.stem,))
    subject.paths = (path.parent,)
    try:
        with path.open("rb") as stream:
            text = stream.read(10_000_000).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"'{printable(shown)}' cannot be read: {error.strerror}") from error
    try:
        block = inline_metadata(text)
    except ValueError as error:
        subject.findings.append(finding("bad-inline-metadata", f"{path.name}: {error}", path.name))
        block = {}
    dependencies = block.get("dependencies", [])
    texts = tuple(one for one in dependencies if isinstance(one, str)) if isinstance(dependencies, list) else ()
    python = str(block.get("requires-python") or "")
    subject.metadata = Metadata(path.name, dependencies=texts, requires_python=python)
    point = next((one for one in find_in_folders([str(path.parent)]) if one.file == str(path)), None)
    if point is None:
        message = "a file whose name begins with '_' or '.' is not a plugin to --plugins-dir"
        subject.findings.append(finding("no-entry-point", message, path.name, "Rename the file."))
        return subject
    if point.problem and not subject.findings:
        subject.findings.append(finding("left-out", point.problem, path.name))
    subject.entry_points = (dataclasses.replace(point, problem=None),)
    return subject
