"""Library → kernel facts: which Metal kernels each registered operator uses, and which operators lack their stub.

Nothing is said of an operator that may also compute in another way: with an MPSGraph, with Metal kernels whose names
are put together otherwise, or through other operators.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from mpsprobe_coverage.kernels.kernel_facts import (
    NAMED,
    STUB,
    SUFFIX,
    KernelFacts,
    encode_facts,
    facts_releases,
    load_facts,
)
from mpsprobe_coverage.kernels.releases import data_folder
from mpsprobe_coverage.kernels.table import MPS
from mpsprobe_tables.builder.callgraph import CallGraph, Reach
from mpsprobe_tables.builder.emulator import Call, Made, run
from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.metal import KernelNames, elementwise_types, kernel_names
from mpsprobe_tables.builder.registrations import FALLBACK_KERNEL, initialisers, operator_name
from mpsprobe_tables.builder.stubs import Stubs, read_stubs
from mpsprobe_tables.builder.wheel import Wheel

KERNEL = re.compile(r"wrap_kernel_functor_unboxed|make_boxed_from_unboxed_functor|^__ZN2at(?!4_ops)|^__ZN2atL")
REGISTER = re.compile(r"^__ZNR5torch7Library5_implE")
# Operators that only make tensors or look at them in another way: they compute nothing, for any dtype.
HARMLESS = re.compile(
    r"(empty|empty_like|empty_strided|new_empty|resize|resize_as|as_strided|alias|view(?!_dtype|_as_)|view_as(?!_)|expand|"
    r"expand_as|reshape|permute|transpose|unsqueeze|squeeze|select|slice|narrow|movedim|flatten|detach|is_same_size|"
    r"result_type)_?(_.*)?$"
)


@dataclass(frozen=True, slots=True)
class BuiltFacts:
    """Facts that were read just now.

    Attributes:
        data: their data file.
        same: whether this package ships the same bytes.
    """

    facts: KernelFacts
    data: bytes
    same: bool

    @property
    def file_name(self) -> str:
        return facts_file(self.facts.release)


def facts_file(release: str) -> str:
    """The name of the data file of one torch release."""
    return f"torch-{release}{SUFFIX}"


def rebuild_facts(wheel: Wheel, sha256: str, built: Iterable[BuiltFacts | None] = ()) -> BuiltFacts | None:
    """The data file of the wheel's release, on top of the release before: one of ``built``, or the shipped one.

    ``None`` for another library than torch. ``sha256`` is that of the wheel.

    Raises:
        TableError: as ``read_facts``.
    """
    if wheel.library != "torch":
        return None
    with tempfile.TemporaryDirectory(prefix="mpsprobe-") as folder:
        library = Path(folder) / "library"
        wheel.extract_library(library)
        facts = read_facts(library, wheel.release, sha256)
    known: dict[str, KernelFacts | None] = dict.fromkeys(facts_releases())
    known.update((one.facts.release, one.facts) for one in built if one is not None)
    older = [release for release in known if Version(release) < Version(facts.release)]
    newest = max(older, key=Version) if older else None
    base = None if newest is None else known[newest] or load_facts(newest)
    data = encode_facts(facts, base)
    shipped = facts.release in facts_releases()
    same = shipped and (data_folder() / facts_file(facts.release)).read_bytes() == data
    return BuiltFacts(facts, data, same)


def read_facts(path: Path, release: str, sha256: str) -> KernelFacts:
    """The facts that the library at ``path`` shows. Takes a few seconds.

    Raises:
        TableError: it is not an arm64 Mach-O library, or a truncated or corrupted one.
    """
    with MachO(path) as library:
        names = kernel_names(library)
        types, patterns = elementwise_types(names), KernelNames(names)
        stubs = read_stubs(library)
        graph = CallGraph(library, stubs, patterns.fits)
        operators = {}
        for operator, kernel in sorted(_registered(library).items()):
            known = _known(graph.reach(kernel), stubs, types, patterns)
            if known:
                operators[operator] = known
    kernels = {}
    for kind, _, name in sorted({fact.partition(":") for known in operators.values() for fact in known}):
        if kind != STUB:
            kernels[name] = patterns.types(name) if kind == NAMED else types[name]
    return KernelFacts(release, sha256, kernels, operators)


def _known(reach: Reach, stubs: Stubs, types: Mapping[str, frozenset[str]], patterns: KernelNames) -> frozenset[str]:
    """What can be said of an operator for certain; nothing where it may compute in several ways."""
    if not reach.complete or reach.graph or None in reach.stubs or None in reach.patterns:
        return frozenset()
    if any(HARMLESS.match(operator) is None for operator in reach.operators):
        return frozenset()
    unset = {stub for stub in reach.stubs if stub not in stubs.kernels}
    if unset:
        computes = reach.elementwise or reach.patterns or unset != reach.stubs or stubs.offset is None
        return frozenset() if computes else frozenset(f"{STUB}:{name}" for name in unset if name is not None)
    if any(operation is None or operation not in types for _, operation in reach.elementwise):
        return frozenset()
    named = {pattern for pattern in reach.patterns if pattern is not None}
    helpers = {name for name in named if "{}" not in name}  # one kernel for all calls: it prepares offsets, masks, sums
    if helpers != named or reach.elementwise:
        named -= helpers
    if not all(map(patterns.types, named)):  # kernels that do not tell of dtypes serve all of them
        return frozenset()
    elementwise = {f"{kind}:{operation}" for kind, operation in reach.elementwise}
    return frozenset(elementwise | {f"{NAMED}:{pattern}" for pattern in named})


def _registered(library: MachO) -> dict[str, int]:
    """Operators registered under MPS, and the function that each registers; without the fallbacks to the CPU."""
    return {
        operator: kernel
        for initialiser in initialisers(library)
        if initialiser.kind == "IMPL_" and initialiser.key == MPS
        for operator, kernel in _kernels(library, initialiser.namespace, initialiser.address, initialiser.end)
    }


def _kernels(library: MachO, namespace: str, address: int, end: int) -> Iterator[tuple[str, int]]:
    operator: str | None = None
    kernel: int | None = None
    for event in run(library.code(address, end), address, library.constant, lambda _: False):
        if isinstance(event, Made):
            text = library.string_at(event.address)
            symbol = library.symbol_at(event.address) if text is None else None
            if text is not None:
                operator = operator_name(text, namespace) or operator
            elif symbol is not None and KERNEL.search(symbol):
                kernel = None if FALLBACK_KERNEL in symbol else event.address
        elif isinstance(event, Call) and REGISTER.search(library.symbol_at(event.target) or ""):
            if operator is not None and kernel is not None:
                yield operator, kernel
            operator = kernel = None
