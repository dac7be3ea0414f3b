"""Kernel tables of other backends, which plugins bring (``mpsprobe_kernel_tables``): asked for, checked, completed.

A plugin says which operators have a kernel under its keys. Which operators a release has, and which of them are
composite, is the same for every backend, and is taken from this package's table of the release.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

from mpsprobe.errors import MpsprobeError, PluginError, TableError, UnknownName
from mpsprobe.protocols import Backend, BackendKernels, KernelTables
from mpsprobe.suggestions import printable
from mpsprobe_coverage.kernels import backend_check
from mpsprobe_coverage.kernels.live import INSTALLED, general_labels, installed_release
from mpsprobe_coverage.kernels.releases import pick_release, torch_releases
from mpsprobe_coverage.kernels.store import load_table
from mpsprobe_coverage.kernels.table import COMPOSITE_LABELS, DEFINED, NATIVE, KernelTable

if TYPE_CHECKING:
    from mpsprobe.plugins.registry import Registry

MPS_NAME = "mps"  # what a user types for this package's own tables
_GENERAL = frozenset({DEFINED, *COMPOSITE_LABELS})
# Their CompositeExplicitAutograd kernels (`native_functions.yaml`) only raise: backends are to override them.
OVERRIDEABLE = frozenset({
    "aten::convolution_overrideable", "aten::convolution_backward_overrideable",
    "aten::_scaled_dot_product_fused_attention_overrideable",
    "aten::_scaled_dot_product_fused_attention_overrideable_backward",
})  # fmt: skip
OTHERS = "Those of another backend come with a plugin: install it, or write one (docs/how-to/another-backend.md)."


class BackendTables:
    """The tables of one backend.

    Args:
        name: as the user types it.
        owner: distribution and version of the plugin, for messages.
        tables: what the plugin made.

    Raises:
        PluginError: what the plugin says of its backend makes no sense.
    """

    def __init__(self, name: str, owner: str, tables: KernelTables) -> None:
        self.name = name
        self.owner = owner
        self._tables = tables
        self._loaded: dict[str, KernelTable] = {}
        self.backend: Backend = backend_check.backend(tables.backend, self._fail)

    @functools.cached_property
    def releases(self) -> tuple[str, ...]:
        """The torch releases with a table, oldest first.

        Raises:
            PluginError: there are none, or they are no versions.
        """
        listed = self._ask("its list of releases", self._tables.releases)
        if isinstance(listed, (str, bytes)) or not isinstance(listed, (list, tuple)):
            self._fail(f"lists its releases as a {type(listed).__name__}, not as a list of versions")
        if not listed:
            self._fail("has no release at all")
        for release in listed:
            try:
                right = isinstance(release, str) and Version(release).public == release
            except InvalidVersion:
                right = False
            if not right:
                self._fail(f"lists '{printable(str(release))[:40]}' as a release, which is no version like 2.13.0")
        return tuple(sorted(set(listed), key=Version))

    def resolve(self, text: str) -> str:
        """The release that ``text`` means (``2.13``, ``latest``, …).

        Raises:
            UnknownName: there is no table of it.
        """
        known = self.releases
        if text.strip().lower() == "latest":
            return known[-1]
        found = pick_release(text, known)
        if found is None:
            raise UnknownName("torch release", text, known, f"{self.owner} has tables of: {', '.join(known)}.")
        return found

    def load(self, release: str) -> KernelTable:
        """The table of one of ``releases``.

        Raises:
            TableError: the plugin cannot read it.
            PluginError: it is not what the protocol asks for.
        """
        if release not in self._loaded:
            found = self._ask(f"its table of torch {release}", lambda: self._tables.table(release))
            self._loaded[release] = self._completed(found, release)
        return self._loaded[release]

    def installed(self) -> KernelTable:
        """What ``--torch installed`` means: the running dispatcher if the plugin can ask it, else the release's table.

        Raises:
            UnknownName: the installed release has no table.
            MissingPackage: torch is not installed.
        """
        release = installed_release()
        ask = getattr(self._tables, "installed", None)
        found = None if ask is None else self._ask("its table of the installed torch", ask)
        if found is not None:
            return self._completed(found, release)
        if release not in self.releases:
            hint = f"It is the one that is installed. {self.owner} has tables of: {', '.join(self.releases)}."
            raise UnknownName("torch release", release, self.releases, hint)
        return self.load(release)

    def target(self, text: str) -> KernelTable:
        """The table that ``--torch TEXT`` means."""
        return self.installed() if text == INSTALLED else self.load(self.resolve(text))

    def routes(self, release: str) -> Mapping[str, Callable[..., Any]]:
        """Operator → what the backend calls instead, where C++ asks for the device type; empty if not known."""
        ask = getattr(self._tables, "routes", None)
        found = {} if ask is None else self._ask(f"its routes of torch {release}", lambda: ask(release))
        return backend_check.routes(found, self._fail)

    def history(self, operator: str, key: str | None = None) -> tuple[tuple[str, str], ...]:
        """``(release, verdict)`` for every release, oldest first."""
        return tuple((release, self.load(release).verdict(operator, key)) for release in self.releases)

    def native_since(self, operator: str, key: str | None = None) -> str | None:
        """The first release from which ``operator`` has been native without a gap; None if the newest is not."""
        since = None
        for release, verdict in reversed(self.history(operator, key)):
            if verdict != NATIVE:
                break
            since = release
        return since

    def removed_in(self, operator: str) -> str | None:
        """The first release that no longer has ``operator``; None while it is there, or if it never was."""
        there = [operator in self.load(release).operators for release in self.releases]
        last = max((index for index, is_there in enumerate(there) if is_there), default=None)
        return None if last is None or last + 1 == len(there) else self.releases[last + 1]

    @functools.cached_property
    def operators(self) -> frozenset[str]:
        """Every operator of every release."""
        return frozenset().union(*(self.load(release).operators for release in self.releases))

    def _completed(self, found: Any, release: str) -> KernelTable:
        given: BackendKernels = backend_check.kernels(found, release, self.backend, self._fail)
        labels = {name: set(general) for name, general in _general(release, self.owner).items()}
        strange = set()
        key = self.backend.key
        named = {
            **{one: frozenset(operators) for one, operators in given.kernels.items()},
            f"{key}:fallback": frozenset(given.fallback),
            f"{key}:error": frozenset(given.raising),
        }
        namespaces = {name.partition("::")[0] for name in labels}
        for label, operators in named.items():
            for name in operators:
                if name not in labels and name.partition("::")[0] in namespaces:
                    strange.add(name)
                labels.setdefault(name, {DEFINED}).add(label)
        for name in OVERRIDEABLE & labels.keys():
            if key not in labels[name]:
                labels[name] = {DEFINED, f"{key}:error"} if given.whole else {DEFINED}
        notes = list(given.notes)
        if strange:
            some = ", ".join(sorted(strange)[:3]) + (", …" if len(strange) > 3 else "")
            notes.append(f"The table names {len(strange)} operators that torch {release} does not have: {some}")
        return KernelTable(
            release=release,
            library="torch",
            wheel="",
            sha256=given.sha256,
            commit=None,
            macos_minimum=None,
            requires_torch="",
            labels={name: frozenset(found) for name, found in labels.items()},
            backend=self.backend,
            whole=given.whole,
            source=f"{given.source} ({self.owner})",
            refused_dtypes=dict(given.refused_dtypes),
            notes=tuple(notes),
            family=self,
        )

    def _ask(self, what: str, call: Callable[[], Any]) -> Any:
        """Call the plugin; whatever goes wrong there is told as its own."""
        try:
            with contextlib.redirect_stdout(sys.stderr):  # standard output carries data
                return call()
        except (MpsprobeError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also SystemExit: a plugin must not end the process
            text = printable(" ".join(f"{type(error).__name__}: {error}".split()))
            hint = f"This is for the authors of {self.owner.partition(' ')[0]}."
            raise PluginError(f"the backend '{self.name}' of {self.owner} cannot give {what}: {text}", hint) from error

    def _fail(self, problem: str) -> Any:
        raise PluginError(
            f"the backend '{self.name}' of {self.owner} {problem}",
            f"This is for the authors of {self.owner.partition(' ')[0]}.",
        )


def backend_tables(name: str, registry: Registry | None = None) -> BackendTables | None:
    """The tables of the backend called ``name``; None for MPS, whose tables are this package's own.

    Raises:
        UnknownName: no installed plugin brings them; carries the nearest names.
        PluginError: two plugins bring them, or the plugin broke a rule.
    """
    if name == MPS_NAME:
        return None
    if registry is None:
        from mpsprobe.plugins.registry import get_registry

        registry = get_registry()
    try:
        made = registry.kernel_tables(name)
    except UnknownName:
        known = {MPS_NAME, *registry.backends()}
        raise UnknownName("backend", name, known, f"There are: {', '.join(sorted(known))}. {OTHERS}") from None
    owner = registry.owner("backend", name)
    return BackendTables(name, "a plugin" if owner is None else owner.owner, made)


@functools.cache
def _general(release: str, owner: str) -> dict[str, frozenset[str]]:
    """What holds for every backend: which operators the release has, and their composite kernels.

    Raises:
        TableError: neither a table nor the installed torch tells.
    """
    if release in torch_releases():
        labels = load_table(release).labels
    elif release == installed_release():
        labels = general_labels()
    else:
        raise TableError(
            f"{owner} has a table of torch {release}, whose operators are not known here",
            "Upgrade mpsprobe-coverage, or install that torch.",
        )
    kept = {name: found & _GENERAL for name, found in labels.items()}
    return {name: found for name, found in kept.items() if found}
