"""The declared names of one kind, and who declared them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mpsprobe.declarations import (
    CommandDeclaration,
    DeviceDeclaration,
    ExporterDeclaration,
    KernelTablesDeclaration,
    ProbeDeclaration,
    RunnerDeclaration,
    ScannerDeclaration,
    WorkloadDeclaration,
)
from mpsprobe.discovery import CORE
from mpsprobe.loading import HookFailed, Plugin
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
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A declaration and the plugin that made it."""

    declaration: Any
    plugin: Plugin


class Catalogue:
    """The names of one kind.

    Attributes:
        entries: the usable names, in the order of their declaration.
        conflicts: names that several plugins declared, with all of them; they are not in ``entries``.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.entries: dict[str, Entry] = {}
        self.conflicts: dict[str, list[Plugin]] = {}
        self._declared: dict[str, list[str]] = {}

    def add(self, plugin: Plugin, declarations: Iterable[Any]) -> Iterator[str]:
        """Take over what ``plugin`` declared; yields a line for each name that another one has too."""
        mine = self._declared.setdefault(plugin.found.target, [])
        for declaration in declarations:
            name = declaration.name
            mine.append(name)
            other = self.entries.get(name)
            if name in self.conflicts:
                self.conflicts[name].append(plugin)
            elif other is None:
                self.entries[name] = Entry(declaration, plugin)
                continue
            elif other.plugin.found == CORE:
                yield f"{plugin.owner} declares the {self.kind} '{name}', which mpsprobe itself has: it is left out"
                continue
            else:
                self.conflicts[name] = [other.plugin, plugin]
                del self.entries[name]
            owners = " and ".join(one.owner for one in self.conflicts[name])
            yield f"the {self.kind} '{name}' is declared by {owners}: it belongs to neither"

    def usable(self) -> dict[str, Any]:
        """Declarations by name."""
        return {name: entry.declaration for name, entry in self.entries.items()}

    def declared_by(self, plugin: Plugin) -> list[str]:
        """Every name that ``plugin`` declared, also those that it did not get."""
        return list(self._declared.get(plugin.found.target, ()))


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
    if not open_names and not NAME.fullmatch(declaration.name):
        return "is not a name: lower-case letters, digits, '-', '.' and '_', beginning with a letter or digit"
    module, colon, attribute = declaration.target.partition(":")
    if not (module and colon and attribute):
        return f"has the target '{printable(declaration.target)}', which is not of the form 'package.module:attribute'"
    return None
