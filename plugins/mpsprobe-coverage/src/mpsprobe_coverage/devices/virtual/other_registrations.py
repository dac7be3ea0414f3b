"""Operators that other releases register, and this one makes of others above autograd, where no mode sees them.

``repeat_interleave`` was left to the CPU up to 1.13 and is made of others since; ``linalg_lu_factor`` had a kernel from
2.5 to 2.9. A run has to know for other releases whether they are called, so a kernel above autograd notes it. The same
for what another release makes of other operators than this one, where a run may be about both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mpsprobe_coverage.knowledge.calls.keys import overload_named
from mpsprobe_coverage.knowledge.kernels.table import KernelFamily, KernelTable
from mpsprobe_coverage.recording.missing_derivatives import is_composite, now_composite


def kernels(
    table: KernelTable,
    above: Mapping[str, Callable[..., Any]],
    note: Callable[[Any], Any],
    go_on: Callable[..., Any],
    elsewhere: frozenset[str],
) -> dict[str, Callable[..., Any]]:
    """Operator → what stands above autograd for it.

    Args:
        above: what stands there already: it is called after ``note``.
        note: called with the overload.
        go_on: called in its place with the overload and the arguments of the call; runs its composite kernel.
        elsewhere: what other releases have above autograd, if a run may be about them too.
    """
    found: dict[str, Callable[..., Any]] = {}
    names = (_of_any(table.family) | elsewhere) - _registered(table)
    for name in names | above.keys() if elsewhere else names:
        func = overload_named(name)
        if not func._schema.is_mutable:  # `out=`
            found[name] = partial(_run, partial(note, func), above.get(name) or partial(go_on, func))
    return found


def _run(note: Callable[[], Any], go_on: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    note()
    return go_on(*args, **kwargs)


@functools.cache
def _of_any(family: KernelFamily) -> frozenset[str]:
    names = frozenset[str]().union(*(_registered(family.load(release)) for release in family.releases))
    return frozenset(name for name in names if name.startswith("aten::") and is_composite(name))


def _registered(table: KernelTable) -> frozenset[str]:
    return (table.native | table.fallback | table.error) - now_composite(table)
