"""The declared names of one kind, and who declared them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mpsprobe import declarations as declared
from mpsprobe.declarations import CommandDeclaration, Declaration, DoctorFinding
from mpsprobe.plugins.discovery import CORE, FoundPlugin
from mpsprobe.plugins.loading import HookFailed, Plugin
from mpsprobe.suggestions import an, printable

KINDS: Mapping[str, tuple[str, type[Any]]] = {
    "workload": ("mpsprobe_workloads", declared.WorkloadDeclaration),
    "scanner": ("mpsprobe_scanners", declared.ScannerDeclaration),
    "backend": ("mpsprobe_kernel_tables", declared.KernelTablesDeclaration),
    "exporter": ("mpsprobe_exporters", declared.ExporterDeclaration),
    "device": ("mpsprobe_devices", declared.DeviceDeclaration),
    "probe": ("mpsprobe_probes", declared.ProbeDeclaration),
    "runner": ("mpsprobe_runners", declared.RunnerDeclaration),
    "command": ("mpsprobe_commands", CommandDeclaration),
}
LEVELS = ("ok", "note", "warning", "error")
TYPES: Mapping[str, Any] = {"str": str, "bool": bool, "str | None": (str, type(None))}
SHOWN_NAMES = 3  # of a conflict, on one line
SIGNS = "._-"
CHARACTERS = frozenset(f"abcdefghijklmnopqrstuvwxyz0123456789{SIGNS}")


class Entry(NamedTuple):
    """A declaration and the plugin that made it."""

    declaration: Any
    plugin: Plugin


class Catalogue:
    """The names of one kind.

    Attributes:
        entries: the usable names, in the order of their declaration.
        conflicts: names that several plugins declared, with all of them; they are not in ``entries``.
        refused: names of the core that plugins declared too, with those plugins.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.entries: dict[str, Entry] = {}
        self.conflicts: dict[str, list[Plugin]] = {}
        self.refused: dict[str, list[Plugin]] = {}
        self._declared: dict[FoundPlugin, list[str]] = {}

    def add(self, plugin: Plugin, declarations: Iterable[Any]) -> None:
        """Take over what ``plugin`` declared."""
        for declaration in declarations:
            name = getattr(declaration, "key", declaration.name)
            self._declared.setdefault(plugin.found, []).append(name)
            other = self.entries.get(name)
            if name in self.conflicts:
                self.conflicts[name].append(plugin)
            elif other is None:
                self.entries[name] = Entry(declaration, plugin)
            elif other.plugin.found == CORE:
                self.refused.setdefault(name, []).append(plugin)
                plugin.problems.append(f"it declares the {self.kind} '{name}', which mpsprobe itself has")
            else:
                self.conflicts[name] = [other.plugin, plugin]
                del self.entries[name]

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Who shares names, or has taken the core's, and a line about all of these names."""
        for name, plugins in self.conflicts.items():
            for one in plugins:
                others = " and ".join(other.owner for other in plugins if other is not one)
                one.problems.append(f"its {self.kind} '{name}' is also declared by {others}: it belongs to nobody")
        for who, names in _by_owners(self.conflicts):
            yield who, f"nobody has the {self.kind} {names}: declared by {who}"
        for who, names in _by_owners(self.refused):
            yield who, f"mpsprobe itself has the {self.kind} {names}: what {who} declares is left out"

    def usable(self) -> dict[str, Any]:
        """Declarations by name."""
        return {name: entry.declaration for name, entry in self.entries.items()}

    def declared_by(self, plugin: Plugin) -> list[str]:
        """Every name that ``plugin`` declared, also those that it did not get."""
        return list(self._declared.get(plugin.found, ()))


def _by_owners(shared: Mapping[str, list[Plugin]]) -> Iterator[tuple[str, str]]:
    """The owners of each group of names as a text, and the names: ``'a', 'b', 'c' and 4 more``."""
    found: dict[str, list[str]] = {}
    for name, plugins in shared.items():
        found.setdefault(printable(" and ".join(dict.fromkeys(one.owner for one in plugins))), []).append(name)
    for who, names in found.items():
        more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
        yield who, ", ".join(f"'{name}'" for name in names[:SHOWN_NAMES]) + more


def checked(answer: Any, hook: str, expected: type[Any], *, open_names: bool = False) -> list[Any]:
    """``answer`` as a list of what ``hook`` returns: declarations, or diagnoses.

    Args:
        open_names: names need not be ones that a user could type without quoting.

    Raises:
        HookFailed: it is something else, or one in it is wrong; the text says which.
    """
    if answer is None or isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
        raise HookFailed(f"its hook {hook} returned {an(type(answer).__name__)}, not a list of {expected.__name__}")
    answers: list[Any] = list(answer)
    seen: set[str] = set()
    for one in answers:
        if type(one) is not expected:
            got = an(type(one).__name__)
            raise HookFailed(f"its hook {hook} returned {got} in its list, not {an(expected.__name__)}")
        problem = _wrong_field(one)
        if problem is None and isinstance(one, Declaration):
            problem = "is declared twice" if one.name in seen else _problem(one, open_names)
            seen.add(one.name)
        if problem:
            about = f"'{printable(str(one.name))}'" if isinstance(one, Declaration) else an(expected.__name__)
            raise HookFailed(f"its hook {hook}: {about} {problem}")
    return answers


def is_name(text: str) -> bool:
    """Whether users can type ``text`` as a name: ``a-z``, ``0-9``, ``-``, ``.``, ``_``, not beginning with a sign."""
    return bool(text) and text[0] not in SIGNS and CHARACTERS.issuperset(text)


def _wrong_field(record: Any) -> str | None:
    """What is wrong with a field of ``record``; dataclasses check no types by themselves."""
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if field.type == "tuple[str, ...]":
            right = isinstance(value, (tuple, list)) and all(isinstance(item, str) for item in value)
        else:
            right = isinstance(value, TYPES[str(field.type)])
        if not right:
            return f"has {an(type(value).__name__)} as its {field.name}, which should be {field.type}"
    if isinstance(record, DoctorFinding) and record.level not in LEVELS:
        return f"has the level '{printable(record.level)}', which is none of {', '.join(LEVELS)}"
    return None


def _problem(declaration: Declaration, open_names: bool) -> str | None:
    """What is wrong with the values of a declaration."""
    words = declaration.name.split(" ", 1) if isinstance(declaration, CommandDeclaration) else [declaration.name]
    if not open_names and not all(map(is_name, words)):
        return "is not a name: lower-case letters, digits, '-', '.' and '_', beginning with a letter or digit"
    module, colon, attribute = declaration.target.partition(":")
    if not (module and colon and attribute):
        return f"has the target '{printable(declaration.target)}', which is not of the form 'package.module:attribute'"
    return None
