"""The kernel table of one release, and what the dispatcher of that release does with an operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from mpsprobe.protocols import Backend

if TYPE_CHECKING:
    from mpsprobe_coverage.kernels.backends import BackendTables

NATIVE, COMPOSITE, FALLBACK = "native", "composite", "fallback"
MISSING, UNSUPPORTED, UNKNOWN = "missing", "unsupported", "unknown"

DEFINED = "defined"
MPS = "MPS"
MPS_BACKEND = Backend("mps", MPS, without_kernel="raises", variable="PYTORCH_ENABLE_MPS_FALLBACK=1")
SPARSE, SPARSE_CSR = "Sparse", "SparseCsr"  # before the key of a backend
MPS_FALLBACK, MPS_ERROR, MPS_PYTHON = "MPS:fallback", "MPS:error", "MPS:python"
IMPLICIT = "CompositeImplicitAutograd"
EXPLICIT = "CompositeExplicitAutograd"
NON_FUNCTIONAL = "CompositeExplicitAutogradNonFunctional"
COMPOSITE_LABELS = (IMPLICIT, EXPLICIT, NON_FUNCTIONAL)
PLAIN_LABELS = (DEFINED, MPS_FALLBACK, MPS_ERROR, MPS_PYTHON, *COMPOSITE_LABELS)


def tensor_keys(key: str = MPS) -> tuple[str, ...]:
    """The dispatch keys that a tensor of the backend with ``key`` can have: dense, COO, the compressed layouts."""
    return key, f"{SPARSE}{key}", f"{SPARSE_CSR}{key}"


TENSOR_KEYS = tensor_keys()


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
    """The operators that one release registers, as ``namespace::name.overload``.

    Attributes:
        release: the library's version, for example ``2.13.0``.
        library: ``torch`` or ``torchvision``.
        wheel: file name of the wheel that it was read from; empty for a table of the live dispatcher.
        sha256: of that wheel, in hexadecimal.
        commit: of the source that the wheel was built from, where the wheel says.
        macos_minimum: oldest macOS that the backend accepts, where the binary says (``14.0``).
        requires_torch: which torch releases a torchvision release says it works with (``==2.13.0``); empty for torch.
        labels: operator → what is known of it: ``defined``, dispatch keys, ``MPS:fallback``, ``MPS:error``,
            ``MPS:python``. The sets below are views of it.
        markers: facts that are no registrations (``kernels/markers.py`` and ``foreach_mps``, ``fused_mps``).
        backend: what PyTorch calls the backend, and what it does without a kernel.
        whole: an operator without a label of the backend has no kernel there. False where that is not known.
        source: what the table of a plugin was read from, in words.
        refused_dtypes: dtype → why the backend has no tensors of it; what a plugin's table says.
        notes: what a reader of a report should know of the table.
        family: the other releases of a plugin's backend; None for MPS, whose tables are in ``store``.
        only_in_binary, only_declared: where the binary and native_functions.yaml disagree, by dispatch key.
            The binary is what counts.
    """

    release: str
    library: str
    wheel: str
    sha256: str
    commit: str | None
    macos_minimum: str | None
    requires_torch: str
    labels: Mapping[str, frozenset[str]] = field(repr=False)
    markers: frozenset[str] = frozenset()
    only_in_binary: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    only_declared: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    backend: Backend = MPS_BACKEND
    whole: bool = True
    source: str = ""
    refused_dtypes: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    family: BackendTables | None = field(default=None, repr=False, compare=False)

    @cached_property
    def _by_label(self) -> dict[str, frozenset[str]]:
        # Few distinct label sets, thousands of operators: gather by set first.
        groups: dict[frozenset[str], list[str]] = {}
        for operator, labels in self.labels.items():
            groups.setdefault(labels, []).append(operator)
        found: dict[str, set[str]] = {}
        for labels, operators in groups.items():
            for label in labels:
                found.setdefault(label, set()).update(operators)
        return {label: frozenset(operators) for label, operators in sorted(found.items())}

    def with_label(self, label: str) -> frozenset[str]:
        """The operators that carry ``label``."""
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
        """Operators whose registered kernel only raises."""
        return self.with_label(f"{self.backend.key}:error")

    @property
    def python(self) -> frozenset[str]:
        """Operators that torch's Python code gives a kernel (group norm on MPS, for example); not in ``native``."""
        return self.with_label(f"{self.backend.key}:python")

    @cached_property
    def composite_explicit(self) -> frozenset[str]:
        """Operators with a CompositeExplicitAutograd or CompositeExplicitAutogradNonFunctional kernel."""
        return self.with_label(EXPLICIT) | self.with_label(NON_FUNCTIONAL)

    @property
    def composite_implicit(self) -> frozenset[str]:
        """Operators with a CompositeImplicitAutograd kernel."""
        return self.with_label(IMPLICIT)

    @cached_property
    def operators(self) -> frozenset[str]:
        """Every operator that exists in the release or has a kernel there."""
        return frozenset(self.labels)

    @property
    def is_mps(self) -> bool:
        """Whether it is a table of this package, of MPS; then what else is known of MPS holds too."""
        return self.family is None

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
