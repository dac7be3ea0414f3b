"""What hooks returned, checked; the declared names of one kind, and whose they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mpsprobe.declarations import CommandDeclaration, Declaration, resolve
from mpsprobe.hookspecs import HOOKS
from mpsprobe.plugins.discovery import CORE
from mpsprobe.plugins.loading import HookFailed, Plugin
from mpsprobe.suggestions import an, printable, some

NAME = r"[a-z0-9][a-z0-9._-]*"
NO_NAME = "is not a name: lower-case letters, digits, '-', '.' and '_', beginning with a letter or digit"


class Entry(NamedTuple):
    """A declaration, or another answer to a hook, and the plugin that made it."""

    declaration: Any
    plugin: Plugin


class Catalogue:
    """The names of one kind, from what each plugin declared, the core first."""

    def __init__(self, kind: str, answers: Iterable[tuple[list[Any], Plugin]]) -> None:
        self.kind = kind
        self._claims = [
            (getattr(declaration, "key", declaration.name), Entry(declaration, plugin))
            for declarations, plugin in answers
            for declaration in declarations
        ]
        self.entries: dict[str, Entry] = {}  # the usable names, in the order of their declaration
        self.conflicts: dict[str, list[Plugin]] = {}  # names that several plugins declared, which nobody has
        self.refused: dict[str, list[Plugin]] = {}  # names of the core, with the plugins that declared them too
        claimed: dict[str, list[Entry]] = {}
        for name, entry in self._claims:
            claimed.setdefault(name, []).append(entry)
        for name, (first, *others) in claimed.items():
            if not others or first.plugin.found == CORE:
                self.entries[name] = first
            if others:
                shared = self.refused if name in self.entries else self.conflicts
                shared[name] = [entry.plugin for entry in (others if name in self.entries else (first, *others))]

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Who shares names, or has taken the core's, and a line about all of these names; notes it in the plugins."""
        for name, plugins in self.conflicts.items():
            for plugin in plugins:
                others = " and ".join(other.owner for other in plugins if other is not plugin)
                plugin.problems.append(f"its {self.kind} '{name}' is also declared by {others}: it belongs to nobody")
        for name, plugins in self.refused.items():
            for plugin in plugins:
                plugin.problems.append(f"it declares the {self.kind} '{name}', which mpsprobe itself has")
        for owners, names in _by_owners(self.conflicts):
            yield owners, f"nobody has the {self.kind} {names}: declared by {owners}"
        for owners, names in _by_owners(self.refused):
            yield owners, f"mpsprobe itself has the {self.kind} {names}: what {owners} declares is left out"

    def usable(self) -> dict[str, Any]:
        return {name: entry.declaration for name, entry in self.entries.items()}

    def declared_by(self, plugin: Plugin) -> list[str]:
        """Every name that ``plugin`` declared, also those that it did not get."""
        return [name for name, entry in self._claims if entry.plugin is plugin]


def _by_owners(shared: Mapping[str, list[Plugin]]) -> Iterator[tuple[str, str]]:
    """The owners of each group of names as a text, and the names: ``'a', 'b', 'c' and 4 more``."""
    groups: dict[str, list[str]] = {}
    for name, plugins in shared.items():
        owners = " and ".join(dict.fromkeys(plugin.owner for plugin in plugins))
        groups.setdefault(printable(owners), []).append(name)
    for owners, names in groups.items():
        yield owners, some([f"'{name}'" for name in names])


def checked(answer: Any, hook: str) -> Any:
    """``answer`` as ``hook`` has it in ``HOOKS``: a list of what it returns, or one; ``None`` where it says nothing.

    Raises:
        HookFailed: it is something else, or a name in it is wrong; the text says which.
    """
    rule = HOOKS[hook]
    if rule.of is None or (answer is None and (rule.open_space or not rule.several)):
        return None
    expected = resolve(rule.of) if isinstance(rule.of, str) else rule.of
    returned = f"its hook {hook} returned {an(type(answer).__name__)}"
    if not rule.several:
        if not isinstance(answer, expected):
            raise HookFailed(f"{returned}, not {an(expected.__name__)}")
        return answer
    if isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
        raise HookFailed(f"{returned}, not a list of {expected.__name__}")
    elements: list[Any] = list(answer)
    names: set[str] = set()
    for element in elements:
        if not isinstance(element, expected):
            got = an(type(element).__name__)
            raise HookFailed(f"its hook {hook} returned {got} in its list, not {an(expected.__name__)}")
        if isinstance(element, Declaration):
            problem = "is declared twice" if element.name in names else None
            words = rf"{NAME}( {NAME})?" if isinstance(element, CommandDeclaration) else NAME
            if problem is None and not rule.open_space and not re.fullmatch(words, element.name):
                problem = NO_NAME
            if problem:
                raise HookFailed(f"its hook {hook}: '{printable(element.name)}' {problem}")
            names.add(element.name)
    return elements
