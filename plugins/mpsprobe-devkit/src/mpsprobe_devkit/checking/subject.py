"""What is checked: from what the user typed to a folder, a file, a wheel or something installed."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import os
import re
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.plugins.discovery import CORE, GROUP, FoundPlugin, find_plugins
from mpsprobe.plugins.plugin_files import find_in_folders, inline_metadata
from mpsprobe.plugins.requirements import specifier_of_ours
from mpsprobe.suggestions import nearest, printable
from mpsprobe_devkit.checking.codes import Finding, finding

FOLDER, FILE, WHEEL, INSTALLED = "folder", "file", "wheel", "installed"
PROJECT = "pyproject.toml"
OURS = "mpsprobe"
ENTRY_POINT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*(\.[^\W\d]\w*)*)?")
WANTED = ("description", "readme", "requires-python", "license", "version")
"""What a project should say."""
PRIVATE = "Private :: "  # a classifier that keeps a distribution from being published: nobody looks it up


@dataclass(slots=True)
class Subject:
    """A plugin that is to be checked.

    Attributes:
        kind: ``folder``, ``file``, ``wheel`` or ``installed``.
        shown: how messages name it.
        root: the folder that paths in findings are relative to.
        distribution, version: of it; ``?`` where nothing says.
        paths: what has to stand in front of ``sys.path`` to import it.
        entry_points: the modules that mpsprobe would load.
        requires, optional: requirements without extras, and those of extras.
        python: the specifier of the versions of Python that it asks for.
        lacks: what its pyproject.toml does not say.
        findings: what is wrong with it before any code runs.
    """

    kind: str
    shown: str
    root: Path = field(default_factory=Path.cwd)
    distribution: str = "?"
    version: str = "?"
    paths: tuple[Path, ...] = ()
    entry_points: tuple[FoundPlugin, ...] = ()
    requires: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    python: str = ""
    lacks: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)

    @property
    def where(self) -> str:
        """The file that says what it is, for findings."""
        return {FOLDER: PROJECT, FILE: self.distribution}.get(self.kind, "METADATA")

    @property
    def packages(self) -> tuple[str, ...]:
        """Its own top-level modules and packages."""
        return tuple(dict.fromkeys(re.split("[.:]", one.target)[0] for one in self.entry_points))

    def sources(self) -> Iterator[Path]:
        """The Python files of its packages."""
        for package in self.packages:
            for root in (*self.paths, self.root):
                if (root / package).is_dir() or (root / f"{package}.py").is_file():
                    yield from sorted((root / package).rglob("*.py")) or [root / f"{package}.py"]
                    break

    def is_wrong(self, message: str, hint: str | None = None) -> Subject:
        """Itself, with one more ``bad-package``."""
        self.findings.append(finding("bad-package", message, self.where, hint))
        return self

    def enter_by(self, declared: Mapping[str, Any]) -> None:
        """Take over the usable ones of the entry points ``declared``."""
        requires = tuple(found for one in self.requires if (found := specifier_of_ours(one)) is not None)
        for name, target in declared.items():
            if isinstance(target, str) and ENTRY_POINT.fullmatch(target.strip()):
                point = FoundPlugin(name, self.distribution, self.version, target.strip(), requires=requires)
                self.entry_points += (point,)
            else:
                self.is_wrong(f"the entry point '{name}' is '{target}', which should be like 'package.module'")


@contextlib.contextmanager
def found_subject(target: str | Path) -> Iterator[Subject]:
    """What ``target`` stands for. A wheel is unpacked as long as the context lasts.

    Raises:
        UsageError: there is nothing of that name, or it cannot be read.
    """
    text = os.fspath(target)
    if not text.strip() or "\0" in text:
        raise UsageError("no plugin was named", "Name a folder, a .py file, a wheel or an installed plugin.")
    if not _is_path(target):
        yield _installed(text)
        return
    path = Path(text).expanduser()
    try:
        path.stat()
    except OSError as error:
        near = nearest(path.name, [one.name for one in path.parent.iterdir()], count=1) if path.parent.is_dir() else []
        hint = f"There is '{printable(str(path.parent / near[0]))}'." if near else None
        raise UsageError(f"'{printable(text)}' cannot be read: {error.strerror}", hint) from error
    if path.is_dir():
        yield _project(path, text)
    elif path.suffix == ".whl":
        # The links of a temporary folder are followed: macOS has /tmp in /private, and paths are compared.
        with tempfile.TemporaryDirectory(prefix="mpsprobe-", ignore_cleanup_errors=True) as unpacked:
            yield _wheel(path, text, Path(unpacked).resolve())
    elif path.suffix == ".py":
        yield _file(path.resolve(), text)
    else:
        raise UsageError(f"'{printable(text)}' is neither a folder nor a .py file nor a wheel")


def _is_path(target: str | Path) -> bool:
    """Whether a path is meant: it has a separator, one of our suffixes, or is a folder that holds a project."""
    if isinstance(target, Path) or target in {".", ".."} or target.startswith("~") or target.endswith((".py", ".whl")):
        return True
    return os.sep in target or "/" in target or os.path.lexists(os.path.join(target, PROJECT))  # noqa: PTH118 - any text


# -- a folder --------------------------------------------------------------------------------------


def _project(folder: Path, shown: str) -> Subject:
    subject = Subject(FOLDER, shown, folder.resolve(), folder.resolve().name)
    try:
        project = tomllib.loads((folder / PROJECT).read_text(encoding="utf-8")).get("project")
    except FileNotFoundError:
        hint = "Name the folder of a plugin's project, or make one: mpsprobe plugins new NAME"
        raise UsageError(f"'{printable(shown)}' holds no {PROJECT}", hint) from None
    except OSError as error:
        raise UsageError(f"{PROJECT} in '{printable(shown)}' cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        return subject.is_wrong(f"{PROJECT} is not TOML: {error}")
    if not isinstance(project, dict) or not isinstance(project.get("name"), str):
        return subject.is_wrong(f"{PROJECT} has no [project] table with a name")
    given = {*_texts(project.get("dynamic")), *(name for name in project if project[name])}
    classifiers = str(project.get("classifiers"))
    given |= {"license"} if "license-files" in given or "License ::" in classifiers else set()
    subject.lacks = tuple(name for name in WANTED if name not in given and PRIVATE not in classifiers)
    subject.distribution, subject.version = project["name"], str(project.get("version", "dynamic"))
    subject.requires, subject.python = _texts(project.get("dependencies")), str(project.get("requires-python") or "")
    extras = _table(project.get("optional-dependencies")).values()
    subject.optional = tuple(one for extra in extras for one in _texts(extra))
    if _normalized(subject.distribution) == OURS:  # its own plugin needs no entry point
        subject.entry_points = (CORE,)
        return subject
    groups = _table(project.get("entry-points"))
    if not (group := _table(groups.get(GROUP))):
        near = nearest(GROUP, groups, count=1)
        advice = f"There is a group '{near[0]}'; it should be called '{GROUP}'." if near else None
        return subject.is_wrong(f"there is no [project.entry-points.{GROUP}]", advice)
    subject.enter_by(group)
    subject.paths = tuple(dict.fromkeys(_root(subject.root, package) for package in subject.packages))
    return subject


def _root(folder: Path, package: str) -> Path:
    """The folder that holds ``package``: what builds take without being told, else what lies up to two folders deep."""
    for pattern in ("src", "", "[!.]*/", "[!.]*/[!.]*/"):
        for root in sorted(folder.glob(pattern)) if pattern else [folder]:
            if (root / package).is_dir() or (root / f"{package}.py").is_file():
                return root
    return folder


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


# -- built and installed ---------------------------------------------------------------------------


def _wheel(path: Path, shown: str, unpacked: Path) -> Subject:
    subject = Subject(WHEEL, shown, unpacked, path.name.partition("-")[0], paths=(unpacked,))
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(unpacked)
    except OSError as error:
        raise UsageError(f"'{printable(shown)}' cannot be read: {error.strerror or error}") from error
    except Exception as error:  # noqa: BLE001 - zlib and lzma have errors of their own
        return subject.is_wrong(f"{path.name} cannot be unpacked: {error}", "Build it again: python -m build")
    infos = sorted(unpacked.glob("*.dist-info"))
    if len(infos) != 1:
        return subject.is_wrong(f"{path.name} has {len(infos)} folders *.dist-info instead of one")
    return _described(subject, importlib.metadata.PathDistribution(infos[0]))


def _installed(name: str) -> Subject:
    found = find_plugins()
    wanted = [one for one in found if name == one.name]
    wanted = wanted or [one for one in found if _normalized(name) == _normalized(one.distribution)]
    subject = Subject(INSTALLED, name, distribution=wanted[0].distribution if wanted else name)
    try:
        _described(subject, importlib.metadata.distribution(subject.distribution))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        if not wanted and os.path.isdir(name):  # noqa: PTH112 - whatever was typed
            message = f"the folder '{printable(name)}' has no {PROJECT}, so it is not a package"
            raise UsageError(message, "Plugins of one file are checked one by one: name the .py file.") from None
        if not wanted:
            known = {known for one in found for known in (one.name, one.distribution)}
            known |= {one.name for one in Path().iterdir() if (one / PROJECT).exists()}
            hint = "A folder, a .py file, a wheel or the name of an installed plugin can be checked."
            raise UnknownName("plugin", name, known, hint) from None
    if chosen := [one for one in wanted if one.name == name and not one.problem]:
        subject.entry_points = tuple(chosen)
    if CORE in wanted:
        subject.entry_points, subject.findings = (CORE,), []
    with contextlib.suppress(ImportError, ValueError, IndexError):
        spec = importlib.util.find_spec(subject.packages[0])  # of a top-level name: imports nothing
        if spec is not None and spec.origin:
            subject.root = Path(spec.origin).resolve().parents[1 if spec.submodule_search_locations else 0]
    return subject


def _described(subject: Subject, distribution: importlib.metadata.Distribution) -> Subject:
    """What the metadata of an installed or built distribution says."""
    subject.distribution, subject.version = distribution.name or subject.distribution, distribution.version or "?"
    requirements = distribution.requires or []
    subject.optional = tuple(one for one in requirements if re.search(r"extra\s*==", one))
    subject.requires = tuple(one for one in requirements if one not in subject.optional)
    subject.python = str(distribution.metadata["Requires-Python"] or "")
    declared = {one.name: one.value for one in distribution.entry_points.select(group=GROUP)}
    if not declared:
        return subject.is_wrong(f"{subject.distribution} has no entry point in the group '{GROUP}'")
    subject.enter_by(declared)
    return subject


def _file(path: Path, shown: str) -> Subject:
    """The file, taken as ``--plugins-dir`` would take it."""
    subject = Subject(FILE, shown, path.parent, path.name, "", paths=(path.parent,))
    point = next((one for one in find_in_folders([str(path.parent)]) if one.file == str(path)), None)
    if point is None:
        return subject.is_wrong("a name that begins with '_' or '.' is no plugin to --plugins-dir", "Rename the file.")
    with contextlib.suppress(OSError, ValueError):  # what is wrong with it stands in its problem
        subject.requires = _texts(inline_metadata(path.read_text(encoding="utf-8")).get("dependencies"))
    subject.entry_points = (dataclasses.replace(point, problem=None),)
    if point.problem:
        subject.findings.append(finding("left-out", point.problem, path.name))
    return subject


def _normalized(name: str) -> str:
    """A distribution's name as installers compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def normalized_names(requirements: Iterable[str]) -> set[str]:
    """The distributions that ``requirements`` name, as installers compare them."""
    return {_normalized(match.group()) for one in requirements if (match := re.match(r"\s*[\w.-]*\w", one))}
