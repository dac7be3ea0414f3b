"""Kernels of backends of other frameworks than torch, which plugins bring as lists of what each release registers.

Such a backend has releases of its own, and operators that no torch has; so that nothing of a torch table fits.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from packaging.version import Version

from mpsprobe.errors import PluginError, UnknownName
from mpsprobe_coverage.knowledge.kernels.releases import INSTALLED

if TYPE_CHECKING:
    from mpsprobe.plugins.registry import Registry

LATEST, ALL = "latest", "all"
Entry = Mapping[str, Any]
Key = tuple[str, str, tuple[tuple[str, str], ...], tuple[str, ...]]


@runtime_checkable
class RegisteredKernels(Protocol):
    """What a plugin makes.

    One that knows wrong results of its backend may also have ``advisories() -> Sequence[Mapping[str, Any]]``, each with
    ``id``, ``title``, ``kind``, ``condition``, ``symptom``, ``workaround``, ``basis``, ``sources``, ``releases`` (those
    that have it; empty where that is not known) and ``operators``.

    Attributes:
        label: the backend as people write it.
    """

    label: str

    def releases(self) -> Sequence[str]:
        """The backend's own releases that have a table, oldest first; at least one."""
        ...

    def installed(self) -> str | None:
        """The release that is installed, if any."""
        ...

    def table(self, release: str) -> Mapping[str, Any]:
        """What one of ``releases`` registers, as ``kernels list --format json`` has it.

        ``registrations`` is a list of ``{"operator": …, "device": …, "types": {…}, "host": […]}``; ``conditional`` one
        of ``{"macos": …, "registrations": […]}``: what some macOS have besides. Anything else is the backend's own.
        """
        ...


class RegisteredFamily:
    """The kernels of one backend.

    Args:
        name: as the user types it.
        tables: what the plugin made.

    Raises:
        PluginError: it made something else.
    """

    def __init__(self, name: str, tables: object) -> None:
        if not isinstance(tables, RegisteredKernels):
            raise PluginError(f"the backend '{name}' is no RegisteredKernels", "This is for the authors of its plugin.")
        self.name = name
        self._tables = tables
        self.label = tables.label
        self.releases = tuple(tables.releases())

    @functools.cached_property
    def operators(self) -> frozenset[str]:
        """Every operator of which some release has a kernel."""
        return frozenset(one["operator"] for release in self.releases for one in self.all_of(release))

    def table(self, release: str) -> Mapping[str, Any]:
        """What one release registers, as the plugin has it."""
        return self._tables.table(release)

    def advisories(self, release: str | None = None, operator: str | None = None) -> list[Entry]:
        """What is known of the backend, of all releases or one, and of all operators or one."""
        asked = getattr(self._tables, "advisories", None)
        named = set(self.resolve(release)) if release is not None else set()
        return [
            one
            for one in (asked() if asked is not None else ())
            if (not named or not one["releases"] or named & set(one["releases"]))
            and (operator is None or operator.lower() in map(str.lower, one["operators"]))
        ]

    def all_of(self, release: str) -> list[Entry]:
        """Every registration of a release, those of some macOS included."""
        table = self.table(release)
        return [*table["registrations"], *(one for group in table["conditional"] for one in group["registrations"])]

    def of(self, operator: str, release: str) -> list[Entry]:
        """The registrations of one operator; those of some macOS have an entry ``macos`` besides."""
        table = self.table(release)
        found = [one for one in table["registrations"] if one["operator"] == operator]
        for group in table["conditional"]:
            found += [{**one, "macos": group["macos"]} for one in group["registrations"] if one["operator"] == operator]
        return found

    def resolve(self, text: str) -> list[str]:
        """The releases that a user names: ``1.2.0``, several with commas, ``latest``, ``all``, ``installed``.

        Where none is installed, ``installed`` is the newest.

        Raises:
            UnknownName: there is no such release; carries the nearest ones.
        """
        if text == ALL:
            return list(self.releases)
        chosen = {self._one(part.strip()) for part in text.split(",") if part.strip()} or {self._one(text)}
        return sorted(chosen, key=Version)

    def _one(self, text: str) -> str:
        wanted = self._tables.installed() or LATEST if text == INSTALLED else text
        if wanted == LATEST:
            return self.releases[-1]
        fitting = [release for release in self.releases if release == wanted or release.startswith(f"{wanted}.")]
        if not fitting:
            known = f"There are: {', '.join(self.releases)}."
            raise UnknownName(f"release of {self.name}", wanted, self.releases, known)
        return fitting[-1]

    def named(self, operators: Iterable[str]) -> list[str]:
        """``operators``, each once; capital letters may be left out.

        Raises:
            UnknownName: no release has a kernel of one; carries the nearest names.
        """
        by_lower = {name.lower(): name for name in self.operators}
        names = []
        for operator in dict.fromkeys(operators):
            name = by_lower.get(operator.lower())
            if name is None:
                hint = f"No release of {self.name} has a kernel of it: an operator of that name would run on the CPU."
                raise UnknownName("operator", operator, self.operators, hint)
            names.append(name)
        return names

    def since(self, operator: str) -> str | None:
        """The first release from which on an operator has a kernel, without a gap up to the newest."""
        found = None
        for release in reversed(self.releases):
            if not any(one["operator"] == operator for one in self.all_of(release)):
                break
            found = release
        return found

    def difference(self, old: str, new: str) -> tuple[list[Entry], list[Entry]]:
        """The registrations that came from one release to another, and those that went."""
        before, after = Counter(map(_key, self.all_of(old))), Counter(map(_key, self.all_of(new)))
        return [_entry(key) for key in (after - before).elements()], [
            _entry(key) for key in (before - after).elements()
        ]


def registered_named(name: str, registry: Registry | None = None) -> RegisteredFamily | None:
    """The kernels of the backend called ``name``; None if it is one of torch, or there is none."""
    if registry is None:
        from mpsprobe.plugins.registry import get_registry

        registry = get_registry()
    if name not in registry.backends() or registry.backend_framework(name) == "torch":
        return None
    return RegisteredFamily(name, registry.kernel_tables(name))


def types(entry: Entry) -> str:
    """The dtypes and the arguments in host memory of one registration, for people."""
    words = [f"{name}={dtype}" for name, dtype in entry["types"].items()]
    words += [f"host: {', '.join(entry['host'])}"] if entry["host"] else []
    words += [f"from macOS {entry['macos']}"] if entry.get("macos") else []
    return " ".join(words) or "any dtype"


def _key(entry: Entry) -> Key:
    return entry["operator"], entry["device"], tuple(entry["types"].items()), tuple(entry["host"])


def _entry(key: Key) -> Entry:
    operator, device, dtypes, host = key
    return {"operator": operator, "device": device, "types": dict(dtypes), "host": list(host)}
