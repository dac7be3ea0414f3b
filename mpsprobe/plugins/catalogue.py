"""The declared names of one kind, and who declared them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mpsprobe.declarations import (
    CommandDeclaration,
    DeviceDeclaration,
    DoctorFinding,
    ExporterDeclaration,
    KernelTablesDeclaration,
    ProbeDeclaration,
    RunnerDeclaration,
    ScannerDeclaration,
    WorkloadDeclaration,
)
from mpsprobe.plugins.discovery import CORE, FoundPlugin
from mpsprobe.plugins.loading import HookFailed, Plugin
from mpsprobe.suggestions import printable

KINDS: Mapping[str, tuple[str, type[Any]]] = {
    "workload": ("mpsprobe_workloads", WorkloadDeclaration),
    "scanner": ("mpsprobe_scanners", ScannerDeclaration),
    "backend": ("mpsprobe_kernel_tables", KernelTablesDeclaration),
    "exporter": ("mpsprobe_exporters", ExporterDeclaration),
    "device": ("mpsprobe_devices", DeviceDeclaration),
    "probe": ("mpsprobe_probes", ProbeDeclaration),
    "runner": ("mpsprobe_runners", RunnerDeclaration),
    "command": ("mpsprobe_commands", CommandDeclaration),
}
LEVELS = ("ok", "note", "warning", "error")
SHOWN_NAMES = 3  # of a conflict, on one line
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A declaration and the plugin that made it."""

    declaration: Any
    plugin: Plugin


@dataclasses.dataclass(frozen=True, slots=True)
class Conflict:
    """Names that belong to nobody, or to the core alone: ``about`` is whose conflict it is, ``line`` tells it."""

    about: str
    line: str


class Catalogue:
    """The names of one kind.

    Attributes:
        entries: the usable names, in the order of their declaration.
        conflicts: names that several plugins declared, with all of them; they are not in ``entries``.
        refused: names of the core that a plugin declared too, with that plugin.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.entries: dict[str, Entry] = {}
        self.conflicts: dict[str, list[Plugin]] = {}
        self.refused: list[tuple[str, Plugin]] = []
        self._declared: dict[FoundPlugin, list[str]] = {}

    def add(self, plugin: Plugin, declarations: Iterable[Any]) -> None:
        """Take over what ``plugin`` declared."""
        mine = self._declared.setdefault(plugin.found, [])
        for declaration in declarations:
            name = declaration.name
            mine.append(name)
            other = self.entries.get(name)
            if name in self.conflicts:
                self.conflicts[name].append(plugin)
            elif other is None:
                self.entries[name] = Entry(declaration, plugin)
            elif other.plugin.found == CORE:
                self.refused.append((name, plugin))
                plugin.problems.append(f"it declares the {self.kind} '{name}', which mpsprobe itself has")
            else:
                self.conflicts[name] = [other.plugin, plugin]
                del self.entries[name]

    def told(self) -> Iterator[Conflict]:
        """One line for each group of plugins that share names, and for each that took the core's."""
        by_owners: dict[tuple[str, ...], list[str]] = {}
        for name, plugins in self.conflicts.items():
            by_owners.setdefault(tuple(dict.fromkeys(one.owner for one in plugins)), []).append(name)
            for one in plugins:
                others = " and ".join(other.owner for other in plugins if other is not one)
                one.problems.append(f"its {self.kind} '{name}' is also declared by {others}: it belongs to neither")
        for owners, names in by_owners.items():
            who = printable(" and ".join(owners))
            belongs = "it belongs" if len(names) == 1 else "they belong"
            nobody = "neither" if len(owners) == 2 else "none of them"
            yield Conflict(who, f"the {self._called(names)} declared by {who}: {belongs} to {nobody}")
        by_plugin: dict[str, list[str]] = {}
        for name, plugin in self.refused:
            by_plugin.setdefault(plugin.owner, []).append(name)
        for owner, names in by_plugin.items():
            text = self._called(names).removesuffix(" is").removesuffix(" are")
            out = "is" if len(names) == 1 else "are"
            yield Conflict(
                owner, f"{printable(owner)} declares the {text}, which mpsprobe itself has: its own {out} left out"
            )

    def _called(self, names: list[str]) -> str:
        """``workload 'a' is``, ``workloads 'a', 'b', 'c' and 4 more are``."""
        if len(names) == 1:
            return f"{self.kind} '{names[0]}' is"
        shown = ", ".join(f"'{name}'" for name in names[:SHOWN_NAMES])
        more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
        return f"{self.kind}s {shown}{more} are"

    def usable(self) -> dict[str, Any]:
        """Declarations by name."""
        return {name: entry.declaration for name, entry in self.entries.items()}

    def declared_by(self, plugin: Plugin) -> list[str]:
        """Every name that ``plugin`` declared, also those that it did not get."""
        return list(self._declared.get(plugin.found, ()))


def checked(answer: Any, hook: str, expected: type[Any], *, open_names: bool = False) -> list[Any]:
    """``answer`` as a list of declarations of the type that ``hook`` returns.

    Args:
        open_names: names need not be ones that a user could type without quoting.

    Raises:
        HookFailed: it is something else, or a declaration in it is wrong; the text says which.
    """
    if answer is None or isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
        raise HookFailed(f"its hook {hook} returned a {type(answer).__name__}, not a list of {expected.__name__}")
    declarations: list[Any] = list(answer)
    seen: set[str] = set()
    for declaration in declarations:
        if type(declaration) is not expected:
            got = type(declaration).__name__
            raise HookFailed(f"its hook {hook} returned a {got} in its list, not a {expected.__name__}")
        problem = _problem(declaration, open_names)
        if problem is None and declaration.name in seen:
            problem = "is declared twice"
        if problem:
            raise HookFailed(f"its hook {hook}: '{printable(str(declaration.name))}' {problem}")
        seen.add(declaration.name)
    return declarations


def checked_doctor_findings(answer: Any, hook: str) -> list[DoctorFinding]:
    """``answer`` as a list of findings.

    Raises:
        HookFailed: it is something else; the text says what.
    """
    if answer is None or isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
        raise HookFailed(f"its hook {hook} returned a {type(answer).__name__}, not a list of DoctorFinding")
    found = list(answer)
    for one in found:
        if not isinstance(one, DoctorFinding):
            raise HookFailed(f"its hook {hook} returned a {type(one).__name__} in its list, not a DoctorFinding")
        if one.level not in LEVELS:
            raise HookFailed(f"its hook {hook}: the level '{printable(str(one.level))}' is none of {', '.join(LEVELS)}")
        if not isinstance(one.message, str) or not isinstance(one.hint, (str, type(None))):
            raise HookFailed(f"its hook {hook}: a DoctorFinding's message should be a text, its hint a text or None")
    return found


def _problem(declaration: Any, open_names: bool) -> str | None:
    """What is wrong with the fields of a declaration; dataclasses check no types by themselves."""
    for field in dataclasses.fields(declaration):
        value = getattr(declaration, field.name)
        if field.type == "tuple[str, ...]":
            right = isinstance(value, (tuple, list)) and all(isinstance(item, str) for item in value)
        else:
            right = isinstance(value, {"str": str, "bool": bool}[str(field.type)])
        if not right:
            return f"has a {type(value).__name__} as its {field.name}, which should be {field.type}"
    words = declaration.name.split(" ", 1) if isinstance(declaration, CommandDeclaration) else [declaration.name]
    if not open_names and not all(map(NAME.fullmatch, words)):
        return "is not a name: lower-case letters, digits, '-', '.' and '_', beginning with a letter or digit"
    module, colon, attribute = declaration.target.partition(":")
    if not (module and colon and attribute):
        return f"has the target '{printable(declaration.target)}', which is not of the form 'package.module:attribute'"
    return None
