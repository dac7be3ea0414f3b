"""Which MPSGraphs a run compiles: a prediction, see ``docs/explanation/growth.md``.

A kernel that computes with an MPSGraph keeps each graph under a key: its own name, and the shapes and dtypes of its
tensors (``getTensorsStringKey`` and ``LookUpOrCreateCachedGraph``, OperationUtils.h). Nothing leaves that cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from typing import NamedTuple

from mpsprobe.schemas import CompilesGraph, GraphCount
from mpsprobe_coverage.knowledge.kernels.kernel_facts import GRAPH, MAY, facts_releases, load_facts
from mpsprobe_coverage.knowledge.kernels.table import MPS, NATIVE, KernelTable
from mpsprobe_coverage.recording.recorder import CallRecord

Key = tuple[object, ...]


class Keys(NamedTuple):
    """The graphs of a run: of kernels that always run one, and of those that may."""

    certain: frozenset[Key]
    possible: frozenset[Key]

    @property
    def number(self) -> GraphCount:
        return GraphCount(least=len(self.certain), most=len(self.certain) + len(self.possible))


def compiles(operator: str, table: KernelTable) -> CompilesGraph | None:
    """Whether a call of ``operator`` with a new shape compiles a graph; None where that was not read."""
    if table.backend.key != MPS or table.release not in facts_releases():
        return None
    known = load_facts(table.release).graphs.get(operator, frozenset())
    return "always" if GRAPH in known else "may" if MAY in known else "never"


def keys_of(records: Iterable[CallRecord], table: KernelTable) -> Keys:
    """The distinct graphs of ``records``. Calls that differ in numbers alone, such as a factor, count as one."""
    keys: dict[CompilesGraph | None, set[Key]] = {"always": set(), "may": set()}
    of_operator = cache(partial(compiles, table=table))
    for record in records:
        kind = of_operator(record.operator) if record.judgement.verdict == NATIVE else None
        if kind in keys:
            keys[kind].add(graph_key(record))
    return Keys(frozenset(keys["always"]), frozenset(keys["may"]))


def graph_key(record: CallRecord) -> Key:
    """What tells graphs apart. Overloads, and ``add`` and ``add_``, run the same function."""
    name = record.operator.partition(".")[0].rstrip("_")
    return (name, *((spec.shape, spec.dtype) for spec in (*record.inputs, *record.outputs)))
