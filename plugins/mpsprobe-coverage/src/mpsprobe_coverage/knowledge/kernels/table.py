"""The kernel table of one release, what the dispatcher of that release does with an operator, and the other releases.

A table knows its family, and a family makes its tables, so both are here.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from mpsprobe.errors import UnknownName
from mpsprobe.protocols import Backend
from mpsprobe_coverage.knowledge.kernels.releases import INSTALLED, installed_release, pick_release, since_without_gap

if TYPE_CHECKING:
    from mpsprobe.schemas import BackendTarget, Target

NATIVE, COMPOSITE, FALLBACK = "native", "composite", "fallback"
MISSING, UNSUPPORTED, UNKNOWN = "missing", "unsupported", "unknown"

DEFINED = "defined"
MPS = "MPS"
SPARSE, SPARSE_CSR = "Sparse", "SparseCsr"  # before the key of a backend
MPS_FALLBACK, MPS_ERROR, MPS_PYTHON = "MPS:fallback", "MPS:error", "MPS:python"
IMPLICIT = "CompositeImplicitAutograd"
EXPLICIT = "CompositeExplicitAutograd"
NON_FUNCTIONAL = "CompositeExplicitAutogradNonFunctional"
COMPOSITE_LABELS = (IMPLICIT, EXPLICIT, NON_FUNCTIONAL)


def tensor_keys(key: str = MPS) -> tuple[str, ...]:
    """Those that a tensor of the backend with ``key`` can have: dense, COO, the compressed layouts."""
    return key, f"{SPARSE}{key}", f"{SPARSE_CSR}{key}"


def verdict_of(labels: Iterable[str], key: str = MPS) -> str:
    """What the dispatcher does with an operator that has these ``labels``, on tensors of dispatch key ``key``.

    The order is that of ``OperatorEntry::computeDispatchTableEntryWithDebug`` (aten/src/ATen/core/dispatch/
    OperatorEntry.cpp): a kernel for the key, then the composite kernels, then the fallback of the backend, which on MPS
    raises or, with PYTORCH_ENABLE_MPS_FALLBACK=1, goes to the CPU. ``CompositeExplicitAutogradNonFunctional`` does not
    serve the key ``Sparse`` of any backend (c10/core/DispatchKeySet.cpp).
    """
    labels = frozenset(labels)
    if f"{key}:error" in labels:
        return UNSUPPORTED
    if f"{key}:fallback" in labels:
        return FALLBACK
    if key in labels or f"{key}:python" in labels:
        return NATIVE
    if EXPLICIT in labels or IMPLICIT in labels:
        return COMPOSITE
    dense_or_compressed = not key.startswith(SPARSE) or key.startswith(SPARSE_CSR)
    if NON_FUNCTIONAL in labels and dense_or_compressed:
        return COMPOSITE
    return MISSING if labels else UNKNOWN


@dataclass(frozen=True)
class KernelTable:
    """The operators that one release registers, as ``namespace::name.overload``."""

    family: KernelFamily = field(repr=False, compare=False)
    release: str  # the library's version, for example 2.13.0
    # Operator → what is known of it: `defined`, dispatch keys, `MPS:fallback`, `MPS:error`, `MPS:python`.
    labels: Mapping[str, frozenset[str]] = field(repr=False)
    library: str = "torch"  # or torchvision
    wheel: str = ""  # file name of the wheel that it was read from; empty where it was read from something else
    sha256: str = ""  # of what it was read from, in hexadecimal, if that is one file
    commit: str | None = None  # of the source that the wheel was built from, where the wheel says
    macos_minimum: str | None = None  # oldest macOS that the backend accepts, where the binary says (14.0)
    requires_torch: str = ""  # which releases a torchvision release says it works with (==2.13.0)
    markers: frozenset[str] = frozenset()  # those of `markers.toml` and `foreach_mps`, `fused_mps`
    # Where the binary and native_functions.yaml disagree, by dispatch key. The binary is what counts.
    only_in_binary: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    only_declared: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    whole: bool = True  # an operator without a label of the backend has no kernel there; False where that is not known
    source: str = ""  # what the table of a plugin was read from, in words
    refused_dtypes: Mapping[str, str] = field(default_factory=dict, repr=False)  # of a plugin: dtype → why
    notes: tuple[str, ...] = ()  # what a reader of a report should know of the table

    @property
    def backend(self) -> Backend:
        """What PyTorch calls the backend, and what it does without a kernel."""
        return self.family.backend

    @property
    def autocast_key(self) -> str:
        return "Autocast" + self.backend.key

    @cached_property
    def _by_label(self) -> dict[str, frozenset[str]]:
        # Few distinct label sets, thousands of operators: gather by set first.
        groups: dict[frozenset[str], list[str]] = {}
        for operator, labels in self.labels.items():
            groups.setdefault(labels, []).append(operator)
        by_label: dict[str, set[str]] = {}
        for labels, operators in groups.items():
            for label in labels:
                by_label.setdefault(label, set()).update(operators)
        return {label: frozenset(operators) for label, operators in sorted(by_label.items())}

    def with_label(self, label: str) -> frozenset[str]:
        return self._by_label.get(label, frozenset())

    @cached_property
    def keys(self) -> Mapping[str, frozenset[str]]:
        """Dispatch key of the backend (``MPS``, ``SparseMPS``, ``AutocastMPS``, …) → operators with a kernel for it."""
        keys = (label for label in self._by_label if label not in (DEFINED, *COMPOSITE_LABELS) and ":" not in label)
        return {label: self._by_label[label] for label in keys}

    @cached_property
    def native(self) -> frozenset[str]:
        """Operators with a kernel of their own under the backend's key (for MPS: in the binary)."""
        return self.with_label(self.backend.key) - self.fallback - self.error

    @property
    def fallback(self) -> frozenset[str]:
        """Operators that PyTorch itself registers to run on the CPU."""
        return self.with_label(f"{self.backend.key}:fallback")

    @property
    def error(self) -> frozenset[str]:
        return self.with_label(f"{self.backend.key}:error")

    @property
    def python(self) -> frozenset[str]:
        """Operators that torch's Python code gives a kernel (group norm on MPS, for example); not in ``native``."""
        return self.with_label(f"{self.backend.key}:python")

    @cached_property
    def operators(self) -> frozenset[str]:
        return frozenset(self.labels)

    @cached_property
    def missing(self) -> frozenset[str]:
        return frozenset(name for name in self.labels if self.verdict(name) == MISSING)

    @cached_property
    def namespaces(self) -> frozenset[str]:
        return frozenset({name[: name.index("::")] for name in self.labels})

    def at_least(self, version: str) -> bool:
        return Version(self.release) >= Version(version)

    def verdict(self, operator: str, key: str | None = None) -> str:
        """What happens to ``operator`` on tensors of dispatch key ``key`` (by default dense ones).

        ``unknown`` for one that does not exist, and for one of which the table cannot say that it has no kernel.
        """
        key = self.backend.key if key is None else key
        verdict = verdict_of(self.labels.get(operator, frozenset()), key)
        if verdict == MISSING and not self.whole:
            return UNKNOWN
        if verdict == MISSING and key == self.backend.key and self.backend.without_kernel == "cpu":
            return FALLBACK
        return verdict


class KernelFamily(ABC):
    """The kernel tables of one backend, and questions that its releases answer together."""

    name: str  # as the user types it (mps, xpu)
    backend: Backend
    owner: str  # the distribution whose tables they are, for messages; a plugin's with its version
    libraries: tuple[str, ...] = ()  # namespaces of further libraries, whose operators are in tables of their own
    runs_on_macos = False  # what a release serves depends on the version of macOS
    refused_dtypes: Mapping[str, str] = MappingProxyType({})  # dtype → why no release has tensors of it

    @property
    def machine(self) -> str:
        """Where to run what can only be known there, in words."""
        return f"a machine with {self.backend.label}"

    @property
    @abstractmethod
    def releases(self) -> tuple[str, ...]:
        """The torch releases with a table, oldest first; at least one."""

    @property
    def releases_in_words(self) -> str:
        return f"{self.owner} has tables of: {', '.join(self.releases)}."

    @abstractmethod
    def load(self, release: str) -> KernelTable:
        """The table of one of ``releases``."""

    @abstractmethod
    def running(self) -> KernelTable | None:
        """What the installed torch has registered at this moment; None where that cannot be asked."""

    @abstractmethod
    def report_target(self, table: KernelTable, macos: str | None) -> Target | BackendTarget:
        """What a report judged by ``table`` says about it; ``macos`` is the version that was asked for."""

    def notes(self, table: KernelTable, native: Collection[str]) -> list[str]:
        """What a report on ``table`` should say about the operators that it calls native, in sentences."""
        return []

    def resolve(self, text: str) -> str:
        """The release that ``text`` means: ``2.13.0``, ``v2.13.0+cpu``, ``2.13`` (its newest patch), ``latest``."""
        if text.strip().lower() == "latest":
            return self.releases[-1]
        release = pick_release(text, self.releases)
        if release is None:
            raise UnknownName("torch release", text, self.releases, self.releases_in_words)
        return release

    def installed(self) -> KernelTable:
        """What ``--torch installed`` means: the running dispatcher where it can be asked, else the release's table."""
        running = self.running()
        if running is not None:
            return running
        release = installed_release()
        if release not in self.releases:
            hint = f"It is the one that is installed. Name another: --torch latest. {self.releases_in_words}"
            raise UnknownName("torch release", release, self.releases, hint)
        return self.load(release)

    def target(self, text: str) -> KernelTable:
        return self.installed() if text == INSTALLED else self.load(self.resolve(text))

    @cached_property
    def operators(self) -> frozenset[str]:
        return frozenset().union(*(self.load(release).operators for release in self.releases))

    def history(self, operator: str, key: str | None = None) -> tuple[tuple[str, str], ...]:
        """``(release, verdict)`` for every release, oldest first, on tensors of dispatch key ``key``."""
        return tuple((release, self.load(release).verdict(operator, key)) for release in self.releases)

    def native_since(self, operator: str, key: str | None = None) -> str | None:
        """The first release from which on, without a gap up to the newest, ``operator`` is native.

        One that is composite in the newest release is native where every operator that it is made of has a kernel.
        """
        verdicts = dict(self.history(operator, key))
        composed = verdicts[self.releases[-1]] == COMPOSITE and key in (None, self.backend.key)

        def is_native(release: str) -> bool:
            made = composed and verdicts[release] == COMPOSITE
            return verdicts[release] == NATIVE or (made and self.is_made_of_native(operator, release))

        return since_without_gap(self.releases, is_native)

    def is_made_of_native(self, operator: str, release: str) -> bool:
        """Whether all operators that the composite ``operator`` may call have a kernel; false where that is unknown."""
        return False

    def removed_in(self, operator: str) -> str | None:
        """The first release that no longer has ``operator``; None while it is there, or if it never was."""
        gone = since_without_gap(self.releases, lambda release: not self._has(operator, release))
        return None if gone == self.releases[0] else gone

    def _has(self, operator: str, release: str) -> bool:
        return operator in self.load(release).operators

    def library(self, name: str, release: str) -> KernelTable | None:
        """The table of the further library ``name`` that belongs to a torch release; None where there is none."""
        return None

    def loaded_libraries(self, release: str) -> dict[str, KernelTable]:
        """The tables of further libraries that are imported in this process, by namespace."""
        tables = {name: self.library(name, release) for name in self.libraries if name in sys.modules}
        return {name: table for name, table in tables.items() if table is not None}

    def routes(self, release: str) -> Mapping[str, Callable[..., Any]]:
        """Operator → what a plugin says the backend calls instead, where C++ asks for the device type."""
        return {}

    def optimizer_forms(self, table: KernelTable) -> frozenset[str]:
        """Those of ``foreach`` and ``fused`` that torch's optimizers have on the backend, in the installed torch."""
        from torch.utils import _foreach_utils

        devices = {
            "foreach": _foreach_utils._get_foreach_kernels_supported_devices(),
            "fused": _foreach_utils._get_fused_kernels_supported_devices(),
        }
        return frozenset(form for form, supported in devices.items() if self.backend.device in supported)
