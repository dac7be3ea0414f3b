"""Of which operators a release makes its composite operators and its derivatives, and how two releases differ in that.

Next to each kernel table of torch is a file ``torch-VERSION.compositions``. Its first line is
``mpsprobe-compositions 1 SHA256``, the digest of all that follows; then one JSON document::

    {"base": "2.12.1", "release": "2.13.0", "sha256": …, "calls": {"mul.Tensor sub.Tensor": "AddcmulBackward0 …", …}}

``calls`` names what changed since ``base``, by the operators that it calls; ``-`` for none, ``""`` for what is gone.
Operators are those of ``aten``. A derivative has the name of its autograd node; reading and writing through an index
(``Tensor.__getitem__``) are entries too. Operators that are ``HARMLESS`` stand in no file.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mpsprobe_coverage.knowledge.kernels.format import Kind, OnDemand, by_name
from mpsprobe_coverage.knowledge.kernels.releases import library_releases
from mpsprobe_coverage.knowledge.kernels.table import COMPOSITE, NATIVE, KernelTable

COMPOSITIONS = Kind("mpsprobe-compositions 1", ".compositions", {"calls": by_name})
NOTHING = "-"
INDEXING = {"getitem": "Tensor.__getitem__", "setitem": "Tensor.__setitem__"}
_NAMES = """
    _local_scalar_dense _reshape_alias _to_copy _unsafe_view adjoint alias as_strided as_strided_ broadcast_to chunk
    clone contiguous copy_ detach diagonal empty empty_like empty_permuted empty_strided expand expand_as fill_ flatten
    full full_like is_pinned is_same_size item lift lift_fresh mH mT matrix_H movedim narrow new_empty
    new_empty_strided new_full new_ones new_zeros numpy_T ones ones_like permute pin_memory reshape reshape_as resize_
    resize_as_ result_type scalar_tensor select set_ slice split split_with_sizes squeeze squeeze_ swapaxes t to
    transpose type_as unbind unflatten unsqueeze unsqueeze_ view view_as zero_ zeros zeros_like
"""
HARMLESS = frozenset(_NAMES.split())
"""Make tensors, copy them or look at them in another way: for dense tensors no release lacks one of them."""
# Operators of other layouts, dtypes and backends: a dense tensor of real numbers on MPS never gets to them.
_ELSEWHERE = re.compile(
    r"cudnn|miopen|mkldnn|xnnpack|fbgemm|vulkan|cuda|_cpu$|quantize|q_per_channel|sparse|nested|csr|csc|coo|coalesce|"
    r"_nnz|_spsolve|dense_dim|to_dense|^_?values$|^\w*_indices$|conj_physical|complex"
)


@dataclass(frozen=True, slots=True)
class Compositions:
    release: str
    sha256: str  # of the wheel, in hexadecimal
    # Composite operator (without `aten::`), derivative or indexing → the operators that its C++ may call.
    calls: Mapping[str, frozenset[str]] = field(repr=False)

    def reached(self, called: Iterable[str], table: KernelTable) -> frozenset[str]:
        """Operators and those that they are made of; ``table`` is of the same release."""
        reached = set(called)
        waiting = [*reached]
        while waiting:
            operator = waiting.pop()
            if table.verdict(f"aten::{operator}") == COMPOSITE:
                parts = self.calls.get(operator, frozenset()) - reached
                reached |= parts
                waiting += parts
        return frozenset(reached)

    def parts(self, operator: str, table: KernelTable) -> frozenset[str]:
        """What ``aten::…`` may call on dense tensors of real numbers, but composite and ``HARMLESS`` operators."""
        called = self.calls.get(operator.removeprefix("aten::"), frozenset())
        reached = {f"aten::{part}" for part in self.reached(called, table) if _ELSEWHERE.search(part) is None}
        return frozenset(part for part in reached if table.verdict(part) != COMPOSITE)


@dataclass(frozen=True, slots=True)
class Composition:
    """A composite operator, a derivative or indexing that two releases make of different operators."""

    name: str  # as in ``Compositions``, composite operators with ``aten::``
    calls: frozenset[str]  # operators that the target release calls there
    lacks_kernel: bool  # one of them has no kernel there, and the tracing release does not call it

    def has(self, operator: str) -> bool:
        return operator in self.calls or operator.removeprefix("aten::").partition(".")[0] in HARMLESS


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split(" ")) - {NOTHING}


class AsInstalled(Composition):
    """One that the target release makes of the same operators, and another release, which is asked too, does not."""

    def __init__(self, name: str) -> None:
        super().__init__(name, frozenset(), lacks_kernel=False)

    def has(self, operator: str) -> bool:
        del operator
        return True


class Differences:
    """What ``table``'s release composes otherwise than the release ``tracer``; nothing where they are the same.

    Where there is no file for the tracer, every composition of the target is in question, and a call is
    known to be right where the target makes it too. ``names`` is what differs, ``operators`` the composite operators
    among it.
    """

    def __init__(self, table: KernelTable, tracer: str) -> None:
        self._table = table
        known = () if table.source or tracer == table.release else composition_releases()
        compared = (tracer, table.release) if table.release in known else (None, None)
        self._here, self._there = (load_compositions(name if name in known else None) for name in compared)
        # Texts are compared where both have them: taking all apart takes a tenth of a second.
        calls = (release.calls for release in (self._here, self._there))
        here, there = (called.texts if isinstance(called, OnDemand) else called for called in calls)
        self.names = frozenset(name for name in {*here, *there} if here.get(name) != there.get(name))
        self.operators = frozenset(f"aten::{name}" for name in self.names if not name[0].isupper())
        self._known: dict[str, Composition] = {}

    def of(self, name: str) -> Composition | None:
        """The difference in ``name`` (``aten::add``, ``AddcmulBackward0``); None where there is none."""
        short = name.removeprefix("aten::")
        if short in self.names and name not in self._known:
            self._known[name] = self._compare(name, short)
        return self._known.get(name)

    def _compare(self, name: str, short: str) -> Composition:
        made_here, made_there = (release.calls.get(short) for release in (self._here, self._there))
        compared = made_here is not None and made_there is not None
        if made_there is None and short[0].isupper():  # a derivative that had another name
            renamed = (n for n in self._there.calls.keys() - self._here.calls.keys() if n[0].isupper())
            made_there = frozenset().union(*(self._there.calls[name] for name in renamed))
        there = self._there.reached(made_there or (), self._table)
        only_there = there - self._there.reached(made_here or (), self._table)
        lacks = compared and any(self._has_no_kernel(operator) for operator in only_there)
        return Composition(name, frozenset(f"aten::{operator}" for operator in there), lacks)

    def _has_no_kernel(self, operator: str) -> bool:
        verdict = self._table.verdict(f"aten::{operator}")
        return verdict not in (NATIVE, COMPOSITE) and _ELSEWHERE.search(operator) is None


def composition_releases() -> tuple[str, ...]:
    return library_releases("torch", COMPOSITIONS.suffix)


@functools.cache
def load_compositions(release: str | None) -> Compositions:
    """The compositions of one torch release; none at all where the package has no file of it."""
    known = COMPOSITIONS.known(release) if release is not None else None
    if known is None:
        return Compositions(release or "", "", {})
    header, parts = known
    return Compositions(header["release"], header["sha256"], OnDemand(parts["calls"], _split))
