"""Kernel tables of other backends, which plugins bring (``mpsprobe_kernel_tables``): asked for, checked, completed.

A plugin says which operators have a kernel under its keys. Which operators a release has, and which of them are
composite, is the same for every backend, and is taken from this package's table of the release.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from mpsprobe.errors import MpsprobeError, PluginError, TableError, UnknownName, UsageError
from mpsprobe.protocols import Backend, BackendKernels, KernelTables
from mpsprobe.suggestions import an, printable, said, type_name
from mpsprobe_coverage.knowledge.kernels import backend_check, live
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.knowledge.kernels.releases import as_version, installed_release
from mpsprobe_coverage.knowledge.kernels.table import COMPOSITE_LABELS, DEFINED, KernelFamily, KernelTable

if TYPE_CHECKING:
    from mpsprobe.plugins.registry import Registry
    from mpsprobe.schemas import BackendTarget

_GENERAL = frozenset({DEFINED, *COMPOSITE_LABELS})
# Their CompositeExplicitAutograd kernels (`native_functions.yaml`) only raise: backends are to override them.
OVERRIDEABLE = frozenset({
    "aten::convolution_overrideable", "aten::convolution_backward_overrideable",
    "aten::_scaled_dot_product_fused_attention_overrideable",
    "aten::_scaled_dot_product_fused_attention_overrideable_backward",
})  # fmt: skip
OTHERS = "Those of another backend come with a plugin: install it, or write one (docs/how-to/another-backend.md)."


class PluginFamily(KernelFamily):
    """The tables of one backend that a plugin brings.

    Args:
        name: as the user types it.
        owner: distribution and version of the plugin, for messages.
        tables: what the plugin made.

    Raises:
        PluginError: what the plugin says about its backend makes no sense. Every method may raise it.
    """

    def __init__(self, name: str, owner: str, tables: KernelTables) -> None:
        self.name = name
        self.owner = owner
        self._tables = tables
        self._loaded: dict[str, KernelTable] = {}
        self.backend: Backend = backend_check.backend(tables.backend, self._fail)

    @functools.cached_property
    def releases(self) -> tuple[str, ...]:
        listed = self._ask("its list of releases", self._tables.releases)
        if isinstance(listed, (str, bytes)) or not isinstance(listed, (list, tuple)):
            self._fail(f"lists its releases as {an(type(listed).__name__)}, not as a list of versions")
        if not listed:
            self._fail("has no release at all")
        for release in listed:
            version = as_version(release) if isinstance(release, str) else None
            if version is None or version.public != release:
                self._fail(f"lists '{printable(str(release))[:40]}' as a release, which is not a version like 2.13.0")
        return tuple(sorted(set(listed), key=Version))

    def load(self, release: str) -> KernelTable:
        if release not in self._loaded:
            kernels = self._ask(f"its table of torch {release}", lambda: self._tables.table(release))
            self._loaded[release] = self._completed(kernels, release)
        return self._loaded[release]

    def running(self) -> KernelTable | None:
        ask = getattr(self._tables, "installed", None)
        kernels = None if ask is None else self._ask("its table of the installed torch", ask)
        return None if kernels is None else self._completed(kernels, installed_release())

    def routes(self, release: str) -> Mapping[str, Callable[..., Any]]:
        ask = getattr(self._tables, "routes", None)
        given = {} if ask is None else self._ask(f"its routes of torch {release}", lambda: ask(release))
        return backend_check.routes(given, self._fail)

    def report_target(self, table: KernelTable, macos: str | None) -> BackendTarget:
        from mpsprobe.schemas import BackendTarget

        del macos
        return BackendTarget(
            backend=self.name,
            label=self.backend.label,
            variable=self.backend.variable,
            torch=table.release,
            source=table.source,
            sha256=table.sha256 or None,
            notes=[*table.notes, *self._not_known(table)],
        )

    def _not_known(self, table: KernelTable) -> Iterator[str]:
        label = self.backend.label
        if not table.whole:
            yield (
                f"The table does not hold every kernel of {label}: an operator that it does not name is unknown, and "
                "one that is made of others may have a kernel of its own"
            )
        routes = sorted(self.routes(table.release))
        but = f", but for {', '.join(routes)}" if routes else ""
        yield (
            f"Where PyTorch's C++ asks for a tensor's device type, {label} was taken for one that it does not name{but}"
        )
        yield f"What kernels of {label} refuse (dtypes, sizes) is not known: native means that one is registered"

    def _completed(self, answer: Any, release: str) -> KernelTable:
        given: BackendKernels = backend_check.kernels(answer, release, self.backend, self._fail)
        labels = {name: set(general) for name, general in _general(release, self.owner).items()}
        key = self.backend.key
        named = {
            **{label: frozenset(operators) for label, operators in given.kernels.items()},
            f"{key}:fallback": frozenset(given.fallback),
            f"{key}:error": frozenset(given.raising),
        }
        namespaces = {name.partition("::")[0] for name in labels}
        new = frozenset().union(*named.values()) - labels.keys()
        strange = {name for name in new if name.partition("::")[0] in namespaces}
        for label, operators in named.items():
            for name in operators:
                labels.setdefault(name, {DEFINED}).add(label)
        for name in OVERRIDEABLE & labels.keys():
            if key not in labels[name]:
                labels[name] = {DEFINED, f"{key}:error"} if given.whole else {DEFINED}
        notes = list(given.notes)
        if strange:
            some = ", ".join(sorted(strange)[:3]) + (", …" if len(strange) > 3 else "")
            notes.append(f"The table names {len(strange)} operators that torch {release} does not have: {some}")
        return KernelTable(
            self,
            release,
            {name: frozenset(known) for name, known in labels.items()},
            sha256=given.sha256,
            whole=given.whole,
            source=f"{given.source} ({self.owner})",
            refused_dtypes=dict(given.refused_dtypes),
            notes=tuple(notes),
        )

    def _ask(self, what: str, call: Callable[[], Any]) -> Any:
        """Call the plugin; whatever goes wrong there is an error of its own."""
        try:
            with contextlib.redirect_stdout(sys.stderr):  # standard output carries data
                return call()
        except (MpsprobeError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also SystemExit: a plugin must not end the process
            text = printable(" ".join(f"{type_name(error)}: {said(error)}".split()))
            hint = f"This is for the authors of {self.owner.partition(' ')[0]}."
            raise PluginError(f"the backend '{self.name}' of {self.owner} cannot give {what}: {text}", hint) from error

    def _fail(self, problem: str) -> Any:
        raise PluginError(
            f"the backend '{self.name}' of {self.owner} {problem}",
            f"This is for the authors of {self.owner.partition(' ')[0]}.",
        )


def family_named(name: str, registry: Registry | None = None) -> KernelFamily:
    """The kernel tables of the backend called ``name``.

    Raises:
        UnknownName: no installed plugin brings them; carries the nearest names.
        UsageError: it is a backend of another framework than torch.
        PluginError: two plugins bring them, or the plugin broke a rule.
    """
    if name == MPS_FAMILY.name:
        return MPS_FAMILY
    if registry is None:
        from mpsprobe.plugins.registry import get_registry

        registry = get_registry()
    try:
        framework = registry.backend_framework(name)
    except UnknownName:
        known = {MPS_FAMILY.name, *registry.backends()}
        raise UnknownName("backend", name, known, f"There are: {', '.join(sorted(known))}. {OTHERS}") from None
    if framework != "torch":
        raise UsageError(
            f"'{name}' is a backend of {framework}, not of torch", "Leave --backend out for a torch model."
        )
    owner = registry.owner("backend", name)
    return PluginFamily(name, "a plugin" if owner is None else owner.owner, registry.kernel_tables(name))


@functools.cache
def _general(release: str, owner: str) -> dict[str, frozenset[str]]:
    """What holds for every backend: which operators the release has, and their composite kernels.

    Raises:
        TableError: neither a table nor the installed torch tells.
    """
    if release in MPS_FAMILY.releases:
        labels = MPS_FAMILY.load(release).labels
    elif release == installed_release():
        labels = live.labels()
    else:
        raise TableError(
            f"{owner} has a table of torch {release}, whose operators are not known here",
            "Upgrade mpsprobe-coverage, or install that torch.",
        )
    kept = {name: known & _GENERAL for name, known in labels.items()}
    return {name: known for name, known in kept.items() if known}
