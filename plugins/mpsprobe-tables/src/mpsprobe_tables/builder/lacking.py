"""Dtypes that no Metal kernel of an operator reads, where it also copies, fills or converts.

Such an operator may compute in another way for some dtypes, so less is certain of it than ``facts`` asks for. One that
computes by element from several operands does not: a copy or a fill is the answer there only for special numbers. Any
other may answer a whole dtype with a copy or a fill (``round`` of whole numbers), but never complex numbers. Names
without float32 tell the size of an element, or the dtype of another tensor, and nothing is said about their operators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mpsprobe_coverage.knowledge.kernels.kernel_facts import EVERY, METAL_TYPES, Refusal
from mpsprobe_tables.builder.callgraph import HARMLESS, Reach
from mpsprobe_tables.builder.following import Kernel
from mpsprobe_tables.builder.metal import KernelNames
from mpsprobe_tables.builder.stubs import Stubs

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
        return Refusal(argument, lacking, f"no Metal kernel '{asked[0]}'" if len(asked) == 1 and asked[0] else "")

    def _is_certain(self, reach: Reach) -> bool:
        harmless = all(HARMLESS.match(operator) or COPIES.match(operator) for operator in reach.operators)
        return harmless and reach.complete and not reach.graph and reach.stubs <= self._stubs.kernels.keys()

    def _there(self, reach: Reach) -> frozenset[str]:
        """The types that one of its kernels may read; empty where that is not known."""
        found = frozenset[str]()
        for _, name in reach.elementwise:
            read = self._any if name is None else self._types.get(name, frozenset())
            if not read:
                return frozenset()
            found |= read
        for pattern in reach.patterns:
            if pattern is None or "{}" in pattern:  # others have one name for all calls: they prepare
                read = frozenset() if pattern is None else self._names.types(pattern)
                if not read:
                    return frozenset()
                found |= read
        return found


def with_refusal(known: frozenset[Refusal], more: Refusal) -> frozenset[Refusal]:
    """``known`` with what ``more`` refuses beyond it."""
    new = more.dtypes - frozenset[str]().union(*(each.dtypes for each in known if each.argument == more.argument))
    return known | {Refusal(more.argument, new, more.message)} if new else known
