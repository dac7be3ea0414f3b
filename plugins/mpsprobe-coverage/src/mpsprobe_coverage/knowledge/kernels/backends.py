"""Kernel tables of other backends, which plugins bring (``mpsprobe_kernel_tables``): asked for, checked, completed.

A plugin says which operators have a kernel under its keys. Which operators a release has, and which of them are
composite, is the same for every backend, and is taken from this package's table of the release.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from packaging.version import Version

from mpsprobe.errors import MpsprobeError, PluginError, TableError, UnknownName, UsageError
from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import Backend, BackendKernels, KernelTables
from mpsprobe.suggestions import an, nearest, printable, said, type_name
from mpsprobe_coverage.knowledge.kernels import live
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.knowledge.kernels.releases import as_version, installed_release
from mpsprobe_coverage.knowledge.kernels.table import (
    COMPOSITE_LABELS,
    DEFINED,
    KernelFamily,
    KernelTable,
    tensor_keys,
)

if TYPE_CHECKING:
    from mpsprobe.schemas import BackendTarget

_GENERAL = frozenset({DEFINED, *COMPOSITE_LABELS})
# Their CompositeExplicitAutograd kernels (`native_functions.yaml`) only raise: backends are to override them.
OVERRIDEABLE = frozenset({
    "aten::convolution_overrideable", "aten::convolution_backward_overrideable",
    "aten::_scaled_dot_product_fused_attention_overrideable",
    "aten::_scaled_dot_product_fused_attention_overrideable_backward",
})  # fmt: skip
OTHERS = "Those of another backend come with a plugin: install it, or write one (docs/how-to/another-backend.md)."
OPERATOR = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*(\.\w+)?", re.ASCII)
LONGEST = 200  # characters of an operator's name


class PluginFamily(KernelFamily):
    """The tables of one backend that a plugin brings. Every method may raise ``PluginError``: they make no sense.

    ``owner``: distribution and version of the plugin, for messages.
    """

    def __init__(self, name: str, owner: str, tables: KernelTables) -> None:
        self.name, self.owner, self._tables = name, owner, tables
        self._loaded: dict[str, KernelTable] = {}
        self.backend: Backend = self._checked_backend(tables.backend)

    @functools.cached_property
    def releases(self) -> tuple[str, ...]:
        listed = self._ask("its list of releases", self._tables.releases)
        if not isinstance(listed, (list, tuple)):
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
        routes = {} if ask is None else self._ask(f"its routes of torch {release}", lambda: ask(release))
        self._want(isinstance(routes, Mapping), routes, "as its routes", "a mapping of operators")
        self._operators(list(routes), "among its routes")
        for name, function in routes.items():
            self._want(callable(function), function, f"as its route of {name}", "a function")
        return {name.removesuffix(".default"): function for name, function in routes.items()}

    def report_target(self, table: KernelTable, macos: str | None) -> BackendTarget:
        from mpsprobe.schemas import BackendTarget

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
        given = self._checked(answer, release)
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
            raise self._error(f"cannot give {what}: {text}") from error

    def _error(self, problem: str) -> PluginError:
        hint = f"This is for the authors of {self.owner.partition(' ')[0]}."
        return PluginError(f"the backend '{self.name}' of {self.owner} {problem}", hint)

    def _fail(self, problem: str) -> NoReturn:
        raise self._error(problem)

    def _want(self, fits: bool, value: Any, where: str, wanted: str) -> None:
        if not fits:
            self._fail(f"has {an(type(value).__name__)} {where}, not {wanted}")

    def _checked_backend(self, backend: Any) -> Backend:
        """``backend`` if it is one that can be; its label filled in."""
        self._want(type(backend) is Backend, backend, "as its backend", "a Backend")
        for field in ("device", "key", "label"):
            value = getattr(backend, field)
            self._want(isinstance(value, str), value, f"as the {field} of its backend", "a str")
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", backend.device):
            self._fail(f"has the device type '{printable(backend.device)[:40]}', which is none that torch.device takes")
        if not re.fullmatch(r"[A-Z][A-Za-z0-9]{0,40}", backend.key):
            key = printable(backend.key)[:40]
            self._fail(f"has the dispatch key '{key}', which is none of torch's (XPU, PrivateUse1, …)")
        if backend.without_kernel not in ("raises", "cpu"):
            self._fail("says what it does without a kernel in a word that is neither 'raises' nor 'cpu'")
        if backend.variable is not None and not re.fullmatch(r"[A-Z][A-Z0-9_]*(=\S+)?", str(backend.variable)):
            variable = printable(str(backend.variable))[:40]
            self._fail(f"has '{variable}' as its variable, which is not of the form NAME=VALUE")
        labelled: Backend = dataclasses.replace(backend, label=printable(backend.label)[:40] or backend.key)
        return labelled

    def _checked(self, table: Any, release: str) -> BackendKernels:
        """``table`` if it is that of ``release``, with every operator's name as mpsprobe writes it."""
        what, key = f"its table of torch {release}", self.backend.key
        if type(table) is not BackendKernels:
            self._fail(f"gives {an(type(table).__name__)} as {what}, not a BackendKernels")
        if table.release != release:
            self._fail(f"gives the table of torch '{printable(str(table.release))[:40]}' as {what}")
        as_kernels = f"as the kernels of {what}"
        self._want(isinstance(table.kernels, Mapping), table.kernels, as_kernels, "a mapping of dispatch keys")
        before = ("Autocast", "Autograd", "Quantized", "NestedTensor")
        keys = [*tensor_keys(key), *(prefix + key for prefix in before)]
        for name in table.kernels:
            if name not in keys:
                near = nearest(str(name), keys, count=1)
                hint = f"; did you mean '{near[0]}'?" if near else f": they are {', '.join(keys)}"
                self._fail(f"has the dispatch key '{printable(str(name))[:40]}' in {what}, which is none of its{hint}")
        kernels = {name: self._operators(listed, f"under {name} in {what}") for name, listed in table.kernels.items()}
        fallback = self._operators(table.fallback, f"among the fallbacks of {what}")
        if not kernels.get(key) and not fallback:
            self._fail(f"has no operator under {key} in {what}: no tensor could be made there")
        for field, kind in (("source", str), ("sha256", str), ("whole", bool)):
            value = getattr(table, field)
            self._want(isinstance(value, kind), value, f"as the {field} of {what}", an(kind.__name__))
        if not table.source.strip():
            self._fail(f"does not say what {what} was read from (its source)")
        if table.sha256 and not re.fullmatch(r"[0-9a-f]{64}", table.sha256):
            self._fail(f"has a sha256 in {what} that is none: 64 hexadecimal digits")
        return dataclasses.replace(
            table,
            kernels=kernels,
            source=printable(table.source),
            fallback=fallback,
            raising=self._operators(table.raising, f"among those that raise in {what}"),
            refused_dtypes=self._dtypes(table.refused_dtypes, what),
            notes=self._notes(table.notes, what),
        )

    def _operators(self, names: Any, where: str) -> frozenset[str]:
        """Operators by their full names; ``.default`` is left out, as everywhere."""
        is_list = isinstance(names, Collection) and not isinstance(names, (str, bytes))
        self._want(is_list, names, where, "a list of operators")
        for name in names:
            self._want(isinstance(name, str), name, where, "an operator's name")
            if len(name) > LONGEST or not OPERATOR.fullmatch(name):
                self._fail(f"names '{printable(name)[:60]}' {where}, which is not of the form namespace::name.overload")
        return frozenset(name.removesuffix(".default") for name in names)

    def _dtypes(self, dtypes: Any, what: str) -> dict[str, str]:
        texts = [text for pair in dtypes.items() for text in pair] if isinstance(dtypes, Mapping) else [None]
        if not all(isinstance(text, str) for text in texts):
            self._fail(f"has refused dtypes in {what} that are no mapping of a dtype's name to a sentence")
        for name in dtypes:
            if not re.fullmatch(r"[a-z][a-z0-9_]{1,30}", name):
                self._fail(
                    f"refuses the dtype '{printable(name)[:40]}' in {what}, which is none: write it as 'float64'"
                )
        return {name: printable(text) for name, text in dtypes.items()}

    def _notes(self, notes: Any, what: str) -> tuple[str, ...]:
        is_list = isinstance(notes, Iterable) and not isinstance(notes, (str, bytes))
        self._want(is_list, notes, f"as the notes of {what}", "a list of sentences")
        texts = list(notes)
        if not all(isinstance(text, str) for text in texts):
            self._fail(f"has notes in {what} that are no text")
        return tuple(map(printable, texts))


def family_named(name: str) -> KernelFamily:
    """The kernel tables of the backend called ``name``."""
    if name == MPS_FAMILY.name:
        return MPS_FAMILY
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
    """What holds for every backend: which operators the release has, and their composite kernels."""
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
