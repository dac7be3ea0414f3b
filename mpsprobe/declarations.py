"""What hooks return: small frozen records that say what a plugin offers, and where it is.

A declaration is cheap. The heavy part stays behind ``target``, a ``"package.module:attribute"``
string that is imported when it is used (``resolve``). A thin ``plugin.py`` that returns
declarations therefore imports neither torch nor pydantic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mpsprobe.errors import PluginError

PHASES = ("inference", "training")
"""What of a workload can be run."""
DTYPES = ("float32", "float16", "bfloat16")
"""What parameters can be made of; all but the first are also for autocast."""


@dataclass(frozen=True, slots=True)
class WorkloadDeclaration:
    """Something to run. ``target`` is a callable that takes the name and returns a ``Workload``.

    Args:
        name: what the user types: lower case, digits, ``-`` and ``.``.
        target: ``"package.module:attribute"``; called as ``attribute(name)``.
        summary: one line for ``mpsprobe workloads list``.
        family: a heading to list it under ("text", "vision", "audio", …).
        framework: what it is written in; a scanner names those that it can read.
        phases: which of ``inference`` and ``training`` it supports.
        requires: distributions that it needs beside the plugin's own dependencies.
    """

    name: str
    target: str
    summary: str
    family: str = "other"
    framework: str = "torch"
    phases: tuple[str, ...] = PHASES
    requires: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScannerDeclaration:
    """What turns a workload into a coverage report.

    ``target`` resolves to a ``Scanner``, or to a class of them that is made without arguments; so
    do the targets of exporters, devices and probes.

    Args:
        name: what reports and messages call it.
        target: ``"package.module:attribute"``.
        summary: one line about it.
        frameworks: those that it reads, as workloads declare theirs.
    """

    name: str
    target: str
    summary: str
    frameworks: tuple[str, ...] = ("torch",)


@dataclass(frozen=True, slots=True)
class KernelTablesDeclaration:
    """The kernel tables of one backend of torch. ``target`` resolves to a ``KernelTables``.

    Args:
        name: the backend, as the user types it after ``--backend`` (``xpu``).
        target: ``"package.module:attribute"``; resolves to a ``KernelTables``.
        summary: one line about it.
    """

    name: str
    target: str
    summary: str


@dataclass(frozen=True, slots=True)
class ExporterDeclaration:
    """What turns a report into something else. ``target`` resolves to an ``Exporter``.

    Args:
        name: what the user types after ``--format`` or ``--to``.
        extension: of the file that it writes, with the dot; ``-o report.md`` finds ``markdown`` by it.
        binary: whether it renders bytes; then it never goes to a terminal.
        kinds: the kinds of report that it reads.
        folder: whether it writes files into a folder (a ``FolderExporter``); then it has no extension.
        target: ``"package.module:attribute"``.
        summary: one line about it.
    """

    name: str
    target: str
    summary: str
    extension: str
    binary: bool = False
    kinds: tuple[str, ...] = ("coverage", "coverage-matrix")
    folder: bool = False


@dataclass(frozen=True, slots=True)
class DeviceDeclaration:
    """What runs a workload (``mps``, ``cuda``, ``cpu``). ``target`` resolves to a ``Device``.

    Args:
        name: what the user types after ``--device``: torch's name of it.
        target: ``"package.module:attribute"``.
        summary: one line about it.
    """

    name: str
    target: str
    summary: str


@dataclass(frozen=True, slots=True)
class ProbeDeclaration:
    """What measures during a run. ``target`` resolves to a ``Probe``.

    Args:
        name: what the user types after ``--probe``.
        target: ``"package.module:attribute"``.
        summary: one line about it.
        default: whether it runs without being named; one that takes long, or slows the machine down, should not.
    """

    name: str
    target: str
    summary: str
    default: bool = True


@dataclass(frozen=True, slots=True)
class RunnerDeclaration:
    """A library's own loop around a workload's steps (``trainer``, …). ``target`` resolves to a ``Runner``.

    Args:
        name: what the user types after ``--runner``.
        target: ``"package.module:attribute"``.
        summary: one line about it.
        phases: which of ``inference`` and ``training`` it runs.
    """

    name: str
    target: str
    summary: str
    phases: tuple[str, ...] = ("training",)


@dataclass(frozen=True, slots=True)
class CommandDeclaration:
    """A command of the CLI. ``target`` resolves to a ``click.Command``; ``summary`` is its help line.

    Args:
        name: what the user types after ``mpsprobe``; ``GROUP COMMAND`` adds to a group that another plugin may have
            declared (``kernels build``).
        target: ``"package.module:attribute"``.
        summary: one line for ``mpsprobe --help``.
    """

    name: str
    target: str
    summary: str


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One finding of ``mpsprobe doctor``.

    Args:
        level: ``ok``, ``note``, ``warning`` or ``error``.
        message: what was found, in a sentence.
        hint: what to do about it.
    """

    level: str
    message: str
    hint: str | None = None


Declaration = (
    WorkloadDeclaration
    | ScannerDeclaration
    | KernelTablesDeclaration
    | ExporterDeclaration
    | DeviceDeclaration
    | ProbeDeclaration
    | RunnerDeclaration
    | CommandDeclaration
)
"""Whatever a hook returns to say what a plugin offers."""


def resolve(target: str) -> Any:
    """Import ``"package.module:attribute"`` and return the attribute.

    Raises:
        PluginError: the string is malformed, or the module has no such attribute.
        ImportError: the module, or something that it needs, is not installed.
    """
    import importlib

    module_name, colon, attribute = target.partition(":")
    if not (module_name and colon and attribute):
        raise PluginError(f"'{target}' is not of the form 'package.module:attribute'")
    found: Any = importlib.import_module(module_name)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise PluginError(f"'{target}' does not resolve: {error}") from error
    return found
