"""What is checked: from what the user typed to a folder, a file, a wheel or something installed; and what is wrong
with it before anything of it runs."""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import importlib.util
import os
import re
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

import mpsprobe
from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.output import TemporaryFolder
from mpsprobe.plugins.discovery import CORE, GROUP, FoundPlugin, find_plugins
from mpsprobe.plugins.plugin_files import find_in_folders
from mpsprobe.plugins.requirements import is_installed, specifier_of_ours
from mpsprobe.suggestions import nearest, printable
from mpsprobe_devkit.checking.codes import Finding, finding
from mpsprobe_devkit.checking.public import PUBLIC_PARTS, is_public

FOLDER, FILE, WHEEL, INSTALLED = "folder", "file", "wheel", "installed"
PROJECT = "pyproject.toml"
OURS = "mpsprobe"
ENTRY_POINT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*(\.[^\W\d]\w*)*)?")
WANTED = ("description", "readme", "requires-python", "license", "version")
"""What a project should say."""
PRIVATE = "Private :: "  # a classifier that keeps a distribution from being published: nobody looks it up


@dataclass(slots=True)
class Subject:
    """A plugin that is to be checked."""

    # kind, shown: ``folder``, ``file``, ``wheel`` or ``installed``, and how messages name it
    kind: str
    shown: str
    # root, paths: the folder that places are relative to, and what has to stand in front of ``sys.path``
    root: Path
    distribution: str
    version: str = "?"
    paths: tuple[Path, ...] = ()
    entry_points: tuple[FoundPlugin, ...] = ()  # the modules that mpsprobe would load
    # requires, optional: requirements without extras, and those of extras
    requires: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    # lacks, findings: what its pyproject.toml does not say, and what is wrong before any code runs
    lacks: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)

    @property
    def where(self) -> str:
        """The file that says what it is, for findings."""
        return {FOLDER: PROJECT, FILE: self.distribution}.get(self.kind, "METADATA")

    @property
    def packages(self) -> tuple[str, ...]:
        """Its own top-level modules and packages."""
        return tuple(dict.fromkeys(re.split("[.:]", entry_point.target)[0] for entry_point in self.entry_points))

    def wrong(self, message: str, hint: str | None = None) -> Subject:
        """Itself, with one more ``bad-package``."""
        self.findings.append(finding("bad-package", message, self.where, hint))
        return self

    def enter_by(self, declared: Mapping[str, Any]) -> Subject:
        """Itself, with the usable ones of the entry points ``declared``."""
        ours = tuple(
            specifier for requirement in self.requires if (specifier := specifier_of_ours(requirement)) is not None
        )
        for name, target in declared.items():
            if isinstance(target, str) and ENTRY_POINT.fullmatch(target.strip()):
                point = FoundPlugin(name, self.distribution, self.version, target.strip(), requires=ours)
                self.entry_points += (point,)
            else:
                self.wrong(f"the entry point '{name}' is '{target}', which should be like 'package.module'")
        return self


@contextlib.contextmanager
def found_subject(target: str | Path) -> Iterator[Subject]:
    """What ``target`` stands for. A wheel is unpacked as long as the context lasts.

    Raises UsageError: there is nothing of that name, or it cannot be read.
    """
    text = os.fspath(target)
    if not text.strip() or "\0" in text:
        raise UsageError("no plugin was named", "Name a folder, a .py file, a wheel or an installed plugin.")
    is_path = isinstance(target, Path) or os.sep in text or "/" in text or text in {".", ".."} or text[0] == "~"
    path = Path(text).expanduser()
    if not (is_path or text.endswith((".py", ".whl")) or os.path.lexists(path / PROJECT)):
        yield _installed(text)
        return
    try:
        is_folder, path = path.stat() and path.is_dir(), path.resolve()
        if is_folder:
            yield _project(path, text, (path / PROJECT).read_bytes())
        elif path.suffix == ".whl":
            # The links of a temporary folder are followed: macOS has /tmp in /private, and paths are compared.
            with TemporaryFolder() as unpacked:
                yield _wheel(path, text, Path(unpacked).resolve())
        elif path.suffix == ".py":
            yield _file(path, text)
        else:
            raise UsageError(f"'{printable(text)}' is neither a folder nor a .py file nor a wheel")
    except OSError as error:
        names = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
        near = nearest(path.name, names, count=1) if path.name not in names else ()
        hint = f"There is '{printable(near[0])}'." if near else "A new project: mpsprobe plugins new NAME"
        raise UsageError(f"'{printable(error.filename or text)}' cannot be read: {error.strerror}", hint) from error


def _project(folder: Path, shown: str, content: bytes) -> Subject:
    subject = Subject(FOLDER, shown, folder, folder.name)
    try:
        project = tomllib.loads(content.decode("utf-8")).get("project")
    except (ValueError, RecursionError) as error:
        return subject.wrong(f"{PROJECT} is not TOML: {error}")
    if not isinstance(project, dict) or not isinstance(project.get("name"), str):
        return subject.wrong(f"{PROJECT} has no [project] table with a name")
    given = {*_texts(project.get("dynamic")), *(name for name in project if project[name])}
    classifiers = str(project.get("classifiers"))
    given |= {"license"} if "license-files" in given or "License ::" in classifiers else set()
    subject.lacks = tuple(name for name in WANTED if name not in given and PRIVATE not in classifiers)
    subject.distribution, subject.version = project["name"], str(project.get("version", "dynamic"))
    subject.requires = _texts(project.get("dependencies"))
    extras = _table(project.get("optional-dependencies")).values()
    subject.optional = tuple(text for extra in extras for text in _texts(extra))
    groups = _table(project.get("entry-points"))
    if _normalized(subject.distribution) == OURS:  # its own plugin needs no entry point
        subject.entry_points = (CORE,)
    elif group := _table(groups.get(GROUP)):
        subject.enter_by(group)
        subject.paths = tuple(dict.fromkeys(_root(folder, package) for package in subject.packages))
    else:
        near = nearest(GROUP, groups, count=1)
        hint = f"There is a group '{near[0]}'; it should be called '{GROUP}'." if near else None
        subject.wrong(f"there is no [project.entry-points.{GROUP}]", hint)
    return subject


def _root(folder: Path, package: str) -> Path:
    """The folder that holds ``package``: as builds look for it, else what lies up to two folders deep."""
    deeper = [root for pattern in ("[!.]*/", "[!.]*/[!.]*/") for root in sorted(folder.glob(pattern))]
    for root in (folder / "src", folder, *deeper):
        if (root / package).is_dir() or (root / f"{package}.py").is_file():
            return root
    return folder


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(part for part in value if isinstance(part, str)) if isinstance(value, list) else ()


def _wheel(path: Path, shown: str, unpacked: Path) -> Subject:
    subject = Subject(WHEEL, shown, unpacked, path.name.partition("-")[0], paths=(unpacked,))
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(unpacked)
        [info] = unpacked.glob("*.dist-info")
        return _described(subject, importlib.metadata.PathDistribution(info))
    except Exception as error:  # noqa: BLE001 - zlib and lzma have errors of their own
        return subject.wrong(f"{path.name} is not a wheel: {error}", "Build it again: python -m build")


def _installed(name: str) -> Subject:
    plugins = find_plugins()
    wanted = [plugin for plugin in plugins if name == plugin.name]
    wanted = wanted or [plugin for plugin in plugins if _normalized(name) == _normalized(plugin.distribution)]
    subject = Subject(INSTALLED, name, Path.cwd(), wanted[0].distribution if wanted else name)
    try:
        _described(subject, importlib.metadata.distribution(subject.distribution))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        if not wanted and Path(name).is_dir():
            message = f"the folder '{printable(name)}' has no {PROJECT}, so it is not a package"
            raise UsageError(message, "Plugins of one file are checked one by one: name the .py file.") from None
        if not wanted:
            known = {known for plugin in plugins for known in (plugin.name, plugin.distribution)}
            hint = "A folder, a .py file, a wheel or the name of an installed plugin can be checked."
            raise UnknownName("plugin", name, known, hint) from None
    chosen = tuple(plugin for plugin in wanted if plugin.name == name and not plugin.problem)
    subject.entry_points = chosen or subject.entry_points
    subject.findings = [] if CORE in wanted else subject.findings
    with contextlib.suppress(ImportError, ValueError, IndexError, AttributeError):
        origin = importlib.util.find_spec(subject.packages[0])  # of a top-level name: imports nothing
        places = origin.submodule_search_locations or [origin.origin]  # type: ignore[union-attr]
        subject.root = Path(str(places[0])).resolve().parent
    return subject


def _described(subject: Subject, distribution: importlib.metadata.Distribution) -> Subject:
    """What the metadata of an installed or built distribution says."""
    requirements = distribution.requires or []
    subject.distribution, subject.version = distribution.name or subject.distribution, distribution.version or "?"
    subject.optional = tuple(requirement for requirement in requirements if re.search(r"extra\s*==", requirement))
    subject.requires = tuple(requirement for requirement in requirements if requirement not in subject.optional)
    declared = {entry_point.name: entry_point.value for entry_point in distribution.entry_points.select(group=GROUP)}
    if not declared:
        return subject.wrong(f"{subject.distribution} has no entry point in the group '{GROUP}'")
    return subject.enter_by(declared)


def _file(path: Path, shown: str) -> Subject:
    """The file, taken as ``--plugins-dir`` would take it."""
    subject = Subject(FILE, shown, path.parent, path.name, "", paths=(path.parent,))
    point = next((plugin for plugin in find_in_folders([str(path.parent)]) if plugin.file == str(path)), None)
    if point is None:
        return subject.wrong("a name that begins with '_' or '.' is no plugin to --plugins-dir", "Rename the file.")
    subject.entry_points = (point._replace(problem=None),)
    subject.findings += [finding("left-out", point.problem, path.name)] if point.problem else []
    return subject


def _normalized(name: str) -> str:
    """A distribution's name as installers compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def normalized_names(requirements: Iterable[str]) -> set[str]:
    """The distributions that ``requirements`` name, as installers compare them."""
    return {
        _normalized(match.group()) for requirement in requirements if (match := re.match(r"\s*[\w.-]*\w", requirement))
    }


LOWER_BOUNDS = {">=", ">", "==", "~=", "==="}


def judged_metadata(subject: Subject, not_checked: list[str]) -> Iterator[Finding]:
    """What the distribution does not say; what it depends on and is not here goes into ``not_checked``."""
    bounds = set()
    if subject.lacks:
        yield finding("missing-metadata", f"it lacks {', '.join(subject.lacks)}", subject.where)
    for text in subject.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            yield finding("bad-package", f"the dependency '{text}' is not a requirement", subject.where, "Correct it.")
            continue
        plain, ours = f"{requirement.name}{requirement.specifier}", requirement.name.lower() == OURS
        bounds |= {clause.operator for clause in requirement.specifier if ours}
        if not ours and (requirement.marker is None or requirement.marker.evaluate()) and not is_installed(plain):
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
    files = [file for place in places for file in (sorted(place.rglob("*.py")) or [place.with_suffix(".py")])]
    for path in files if OURS not in subject.packages else ():
        try:
            tree = ast.parse(path.read_bytes(), str(path))
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # importing it says why
        for node in ast.walk(tree):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [alias.name for alias in node.names if node.module == OURS and alias.name in parts]
                modules = [node.module, *(f"{OURS}.{name}" for name in names)]
            for module in modules:
                if module.partition(".")[0] == OURS and not is_public(module):
                    where = f"{path.relative_to(subject.root).as_posix()}:{getattr(node, 'lineno', 1)}"
                    yield finding("imports-private", f"{module} is not public", where, hint)
