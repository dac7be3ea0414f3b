"""What is checked: where its code lies, what its metadata says, and which modules it enters by."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from mpsprobe.plugins.discovery import FoundPlugin
from mpsprobe.plugins.requirements import specifier_of_ours
from mpsprobe_devkit.checking.findings import Finding, finding

FOLDER, FILE, WHEEL, INSTALLED = "folder", "file", "wheel", "installed"
OURS = "mpsprobe"
ENTRY_POINT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*(\.[^\W\d]\w*)*)?")


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a distribution says about itself.

    Attributes:
        where: the file that says it, for findings.
        given: the fields that are there, in the words of ``pyproject.toml``, those that the build fills in among them.
        dependencies: requirements without extras.
        optional: requirements of all extras.
        classifiers: trove classifiers.
        requires_python: a specifier, or empty.
    """

    where: str
    given: frozenset[str] = frozenset()
    dependencies: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    classifiers: tuple[str, ...] = ()
    requires_python: str = ""


@dataclass(slots=True)
class Subject:
    """A plugin that is to be checked.

    Attributes:
        kind: ``folder``, ``file``, ``wheel`` or ``installed``.
        shown: how messages name it.
        distribution, version: of it; ``?`` where nothing says.
        root: the folder that paths in findings are relative to.
        paths: what has to stand in front of ``sys.path`` to import it.
        entry_points: the modules that mpsprobe would load.
        metadata: ``None`` for a single file.
        packages: its own top-level modules and packages.
        findings: what was wrong with it before any code ran.
    """

    kind: str
    shown: str
    distribution: str = "?"
    version: str = "?"
    root: Path = field(default_factory=Path.cwd)
    paths: tuple[Path, ...] = ()
    entry_points: tuple[FoundPlugin, ...] = ()
    metadata: Metadata | None = None
    packages: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_core(self) -> bool:
        """Whether it is mpsprobe itself, which may import what is private to it."""
        return normalized(self.distribution) == OURS

    def relative(self, path: str | Path) -> str:
        """``path`` as findings name it: relative to ``root`` where it lies in there, with ``/``."""
        try:
            return Path(path).resolve().relative_to(self.root.resolve()).as_posix()
        except (OSError, ValueError):
            return str(path)


def normalized(name: str) -> str:
    """A distribution's name as installers compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entry_points(
    declared: dict[str, str], distribution: str, version: str, dependencies: tuple[str, ...], where: str
) -> tuple[tuple[FoundPlugin, ...], list[Finding]]:
    """The usable ones among ``declared``, and a finding for each other one."""
    requires = tuple(found for one in dependencies if (found := specifier_of_ours(one)) is not None)
    usable, findings = [], []
    for name, target in declared.items():
        if not isinstance(target, str) or not ENTRY_POINT.fullmatch(target.strip()):
            findings.append(finding("bad-entry-point", f"the entry point '{name}' is '{target}'", where))
            continue
        usable.append(FoundPlugin(name, distribution, version, target.strip(), requires=requires))
    return tuple(usable), findings


def module_of(target: str) -> str:
    """``package.module`` of ``package.module:attribute``."""
    return target.partition(":")[0]


def top_level(module: str) -> str:
    """``package`` of ``package.module``."""
    return module.partition(".")[0]
