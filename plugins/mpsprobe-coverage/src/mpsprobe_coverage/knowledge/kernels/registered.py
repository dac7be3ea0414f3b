"""Kernels of backends of other frameworks than torch, which plugins bring as lists of what each release registers.

Such a backend has releases of its own, and operators that no torch has; so that nothing of a torch table fits.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from packaging.version import Version

from mpsprobe.errors import PluginError, UnknownName
from mpsprobe.plugins.registry import get_registry
from mpsprobe_coverage.knowledge.kernels.releases import INSTALLED, since_without_gap

LATEST, ALL = "latest", "all"
Entry = Mapping[str, Any]
Key = tuple[str, str, tuple[tuple[str, str], ...], tuple[str, ...]]


@runtime_checkable
class RegisteredKernels(Protocol):
    """What a plugin makes.

    One that knows wrong results of its backend may also have ``advisories() -> Sequence[Mapping[str, Any]]``, each with
    ``id``, ``title``, ``kind``, ``condition``, ``symptom``, ``workaround``, ``basis``, ``sources``, ``releases`` (those
    that have it; empty where that is not known) and ``operators``.
    """

    label: str  # the backend as people write it

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
    """The kernels of one backend. Raises ``PluginError``: its plugin made something else."""

    def __init__(self, name: str, tables: object) -> None:
        if not isinstance(tables, RegisteredKernels):
            raise PluginError(f"the backend '{name}' is no RegisteredKernels", "This is for the authors of its plugin.")
        self.name, self._tables = name, tables
        self.label = tables.label
        self.releases = tuple(tables.releases())
        self.table = tables.table

    @functools.cached_property
    def operators(self) -> frozenset[str]:
        return frozenset(entry["operator"] for release in self.releases for entry in self.all_of(release))

    def advisories(self, release: str | None = None, operator: str | None = None) -> list[Entry]:
        """What is known of the backend, of all releases or one, and of all operators or one."""
        ask = getattr(self._tables, "advisories", tuple)
        named = set() if release is None else set(self.resolve(release))
        return [
            entry
            for entry in ask()
            if (not named or not entry["releases"] or named & set(entry["releases"]))
            and (operator is None or operator.lower() in map(str.lower, entry["operators"]))
        ]

    def all_of(self, release: str) -> list[Entry]:
        """Every registration of a release; those of some macOS have an entry ``macos`` besides."""
        table = self.table(release)
        conditional = ({**entry, "macos": of["macos"]} for of in table["conditional"] for entry in of["registrations"])
        return [*table["registrations"], *conditional]

    def of(self, operator: str, release: str) -> list[Entry]:
        return [entry for entry in self.all_of(release) if entry["operator"] == operator]

    def resolve(self, text: str) -> list[str]:
        """The releases that a user names: ``1.2.0``, several with commas, ``latest``, ``all``, ``installed``.

        Where none is installed, ``installed`` is the newest.
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
        """``operators``, each once; capital letters may be left out."""
        by_lower = {name.lower(): name for name in self.operators}
        names = []
        for operator in dict.fromkeys(operators):
            if operator.lower() not in by_lower:
                hint = f"No release of {self.name} has a kernel of it: an operator of that name would run on the CPU."
                raise UnknownName("operator", operator, self.operators, hint)
            names.append(by_lower[operator.lower()])
        return names

    def listed(self, release: str) -> Any:
        """What releases register, as ``kernels list --format json`` has it."""
        documents = [{"backend": self.name, **self.table(part)} for part in self.resolve(release)]
        return documents if release == ALL or len(documents) > 1 else documents[0]

    def shown(self, operators: Iterable[str], release: str) -> list[dict[str, Any]]:
        return [
            {"operator": name, "backend": self.name, "release": part, "registrations": self.of(name, part)}
            for name in self.named(operators)
            for part in self.resolve(release)
        ]

    def since(self, operators: Iterable[str]) -> list[dict[str, Any]]:
        newest = self.releases[-1]
        return [
            {"operator": name, "backend": self.name, "native_since": self._since(name), "release": newest}
            for name in self.named(operators)
        ]

    def _since(self, operator: str) -> str | None:
        return since_without_gap(self.releases, lambda release: bool(self.of(operator, release)))

    def difference(self, old: str, new: str) -> dict[str, Any]:
        """The operators and the registrations that came from one release to another, and those that went."""
        first, second = (self.resolve(text)[-1] for text in (old, new))
        had, has = ({entry["operator"] for entry in self.all_of(release)} for release in (first, second))
        before, after = (Counter(map(_key, self.all_of(release))) for release in (first, second))
        return {
            "backend": self.name,
            "from": first,
            "to": second,
            "gained": sorted(has - had),
            "lost": sorted(had - has),
            "registrations": {
                "added": list(map(_entry, (after - before).elements())),
                "removed": list(map(_entry, (before - after).elements())),
            },
        }


def registered_named(name: str) -> RegisteredFamily | None:
    """The kernels of the backend called ``name``; None if it is one of torch, or there is none."""
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
