"""Library → kernel facts: the Metal kernels that operators use, the stubs that they lack, the dtypes that they refuse,
which of them always run a graph, and which may.

Of Metal kernels and stubs nothing is said where an operator may also compute in another way: with an MPSGraph, with
Metal kernels whose names are put together otherwise, or through other operators.

``Lacking`` asks for less: dtypes that no Metal kernel of an operator reads, where it also copies, fills or converts,
and so may compute in another way for some dtypes. One that computes by element from several operands does not: a copy
or a fill is the answer there only for special numbers. Any other may answer a whole dtype with a copy or a fill
(``round`` of whole numbers), but never complex numbers. Names without float32 tell the size of an element, or the
dtype of another tensor, and nothing is said about their operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from mpsprobe_coverage.knowledge.kernels.kernel_facts import EVERY, METAL_TYPES, NAMED, STUB, KernelFacts, Refusal
from mpsprobe_coverage.knowledge.kernels.table import MPS
from mpsprobe_tables.builder.callgraph import HARMLESS, CallGraph, Reach
from mpsprobe_tables.builder.code import read_code
from mpsprobe_tables.builder.emulator import Call, Made, run
from mpsprobe_tables.builder.flow import NO_KERNEL
from mpsprobe_tables.builder.following import Kernel, follower_of, kernels_of, read_graphs, read_refusals, with_reached
from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.metal import KernelNames, elementwise_types, kernel_sizes
from mpsprobe_tables.builder.registrations import FALLBACK_KERNEL, initialisers, operator_name
from mpsprobe_tables.builder.stubs import Stubs, read_stubs

COPIES = re.compile(r"(copy_|clone|fill__Scalar|fill__Tensor|zero_|item|aminmax|to_dtype)$")
COMPLEX = frozenset(dtype for dtype in METAL_TYPES.values() if dtype.startswith("complex"))


class Lacking:
    """What the operators of one library lack.

    Args:
        reaches: operator → what its code reaches.
        types: Metal operation → types of its input.
        names, stubs: those of the library.
    """

    def __init__(
        self, reaches: Mapping[str, Reach], types: Mapping[str, frozenset[str]], names: KernelNames, stubs: Stubs
    ) -> None:
        self._reaches, self._types, self._names, self._stubs = reaches, types, names, stubs
        unary = {name for reach in reaches.values() for kind, name in reach.elementwise if kind == "unary"}
        patterns = {pattern for reach in reaches.values() for pattern in reach.patterns if pattern is not None}
        # A name that is not known may be that of any operation but these.
        others = {name for name in types if name in unary or any(p.startswith(f"{name}_") for p in patterns)}
        self._any = frozenset[str]().union(*(read for name, read in types.items() if name not in others))

    def refusal(self, kernel: Kernel) -> Refusal | None:
        """The dtypes that ``kernel`` has no Metal kernel for, where there are some for certain."""
        reach = self._reaches[kernel.operator]
        there = self._there(reach)
        if "float" not in there or not kernel.certain or not self._is_certain(reach):
            return None
        lacking = frozenset(dtype for metal, dtype in METAL_TYPES.items() if metal not in there)
        by_element = not reach.patterns and {kind for kind, _ in reach.elementwise} <= {"binary", "ternary"}
        if not by_element or len(kernel.certain) == 1 or "to_dtype" in reach.operators:
            lacking &= COMPLEX
        if not lacking:
            return None
        argument = EVERY if by_element and len(kernel.certain) > 1 else kernel.certain[0].name
        asked = sorted({name for _, name in reach.elementwise} | reach.patterns, key=str)
        return Refusal(argument, lacking, f"{NO_KERNEL} '{asked[0]}'" if len(asked) == 1 and asked[0] else "")

    def _is_certain(self, reach: Reach) -> bool:
        harmless = all(HARMLESS.match(operator) or COPIES.match(operator) for operator in reach.operators)
        return harmless and reach.complete and not reach.graph and reach.stubs <= self._stubs.kernels.keys()

    def _there(self, reach: Reach) -> frozenset[str]:
        """The types that one of its kernels may read; empty where that is not known."""
        names = frozenset[str]()
        for _, name in reach.elementwise:
            read = self._any if name is None else self._types.get(name, frozenset())
            if not read:
                return frozenset()
            names |= read
        for pattern in reach.patterns:
            if pattern is None or "{}" in pattern:  # others have one name for all calls: they prepare
                read = frozenset() if pattern is None else self._names.types(pattern)
                if not read:
                    return frozenset()
                names |= read
        return names


def with_refusal(known: frozenset[Refusal], more: Refusal) -> frozenset[Refusal]:
    """``known`` with what ``more`` refuses beyond it."""
    new = more.dtypes - frozenset[str]().union(*(each.dtypes for each in known if each.argument == more.argument))
    return known | {Refusal(more.argument, new, more.message)} if new else known


def _shown_by_names(kernel: Kernel, known: frozenset[str], kernels: Mapping[str, frozenset[str]]) -> Refusal | None:
    """What the names of its Metal kernels refuse: ``judging/metal.py`` judges the first tensor by them."""
    facts = [fact.partition(":") for fact in known]
    if not kernel.inputs or all(kind != NAMED for kind, _, _ in facts):
        return None
    read = frozenset[str]().union(*(kernels.get(name, frozenset()) for _, _, name in facts))
    lacking = frozenset(dtype for metal, dtype in METAL_TYPES.items() if metal not in read)
    return Refusal(kernel.inputs[0].name, lacking, NO_KERNEL)


def _beyond(known: frozenset[Refusal], shown: Refusal) -> frozenset[Refusal]:
    """``known`` without what ``shown`` tells, too."""
    return frozenset(
        refusal
        for refusal in known
        if refusal.argument != shown.argument
        or not refusal.dtypes <= shown.dtypes
        or not refusal.message.startswith(shown.message)
    )


KERNEL = re.compile(r"wrap_kernel_functor_unboxed|make_boxed_from_unboxed_functor|^__ZN2at(?!4_ops)|^__ZN2atL")
REGISTER = re.compile(r"^__ZNR5torch7Library5_implE")


def read_facts(library: MachO, release: str, sha256: str) -> KernelFacts:
    """The facts that ``library`` shows. Takes some seconds. ``sha256`` is that of its wheel.

    Raises TableError: it is corrupted.
    """
    names = kernel_sizes(library)
    types, patterns = elementwise_types(names), KernelNames(names)
    stubs = read_stubs(library)
    graph = CallGraph(library, stubs, patterns.fits)
    registered = registered_functions(library, MPS)
    reaches = {operator: graph.reach(kernel) for operator, kernel in sorted(registered.items())}
    known = {operator: _known(reach, stubs, types, patterns) for operator, reach in reaches.items()}
    operators = {operator: facts for operator, facts in known.items() if facts}
    kernels = {}
    for kind, _, name in sorted({fact.partition(":") for facts in operators.values() for fact in facts}):
        if kind != STUB:
            kernels[name] = patterns.types(name) if kind == NAMED else types[name]
    code = read_code(library, registered, stubs, reaches)
    follower = follower_of(library, stubs, patterns)
    reached = [operator for operator, reach in reaches.items() if reach.graph]
    if follower is None:
        return KernelFacts(release, sha256, kernels, operators, graphs=with_reached({}, reached), code=code)
    followed = list(kernels_of(library, registered))
    refusals = read_refusals(follower, followed)
    lacking = Lacking(reaches, types, patterns, stubs)
    for kernel in followed:
        operator = kernel.operator
        refusal = None if known[operator] else lacking.refusal(kernel)
        if refusal is not None:
            refusals[operator] = with_refusal(refusals.get(operator, frozenset()), refusal)
        shown = _shown_by_names(kernel, known[operator], kernels)
        if shown is not None and operator in refusals:
            refusals[operator] = _beyond(refusals[operator], shown)
    graphs = with_reached(read_graphs(follower, followed), reached)
    return KernelFacts(release, sha256, kernels, operators, {o: r for o, r in refusals.items() if r}, graphs, code)


def _known(reach: Reach, stubs: Stubs, types: Mapping[str, frozenset[str]], patterns: KernelNames) -> frozenset[str]:
    """What can be said about an operator for certain; nothing where it may compute in several ways."""
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


def registered_functions(library: MachO, key: str) -> dict[str, int]:
    """Operators registered under ``key``, and the function that each registers; without the fallbacks to the CPU."""
    return {
        operator: kernel
        for initialiser in initialisers(library)
        if initialiser.kind == "IMPL_" and initialiser.key == key
        for operator, kernel in _kernels(library, initialiser.namespace, initialiser.address)
    }


def _kernels(library: MachO, namespace: str, address: int) -> Iterator[tuple[str, int]]:
    operator: str | None = None
    kernel: int | None = None
    for event in run(library, address):
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
