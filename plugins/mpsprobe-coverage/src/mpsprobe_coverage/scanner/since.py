"""From which release on is the whole workload native? Found with as few runs as possible.

A run on one release speaks for every release that treats each operator it met the same way: there the
dispatcher decides the same. Where one of them has no kernel, or is refused, the release may still be
native, because it is made of other operators there (attention before 2.5.0), so the workload is run
once more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.version import Version

from mpsprobe_coverage.device.autocast import key_of
from mpsprobe_coverage.device.dtypes import DtypeRules
from mpsprobe_coverage.device.keys import serving_key
from mpsprobe_coverage.device.refusals import Rules, rules_for
from mpsprobe_coverage.device.routing import REFUSALS_CHANGE
from mpsprobe_coverage.device.routing.copies import ALWAYS_NATIVE
from mpsprobe_coverage.device.routing.others import other_copies
from mpsprobe_coverage.kernels.store import load_table
from mpsprobe_coverage.kernels.table import KernelTable
from mpsprobe_coverage.scanner.targets import libraries_for


@dataclass(frozen=True, slots=True)
class NativeRun:
    """A run in which everything was native.

    Attributes:
        release: on which.
        operators, dtypes: what it called, and the dtypes of all tensors.
        met: operator → the dtypes of its own tensors; those of all where an operator is not there.
    """

    release: str
    operators: frozenset[str]
    dtypes: frozenset[object]
    autocast: bool = False
    met: Mapping[str, frozenset[object]] = field(default_factory=dict)


def native_since(
    releases: Sequence[str],
    trace: Callable[[str], NativeRun | None],
    speaks_for: Callable[[NativeRun, str], bool],
    known: tuple[str, NativeRun | None] | None = None,
) -> str | None:
    """The first of ``releases`` (oldest first) from which the workload is native up to the last.

    Args:
        trace: runs the workload on a release; None if not all of it was native.
        speaks_for: whether a run says that another release is native too.
        known: a release that was run already, and what ``trace`` said.
    """
    since = None
    run: NativeRun | None = None
    if known is not None and known[1] is not None and speaks_for(known[1], releases[-1]):
        run = known[1]
    for release in reversed(releases):
        here = known is not None and release == known[0]
        if here and known is not None and known[1] is None:
            break
        if run is None or not speaks_for(run, release):
            run = known[1] if here and known is not None else trace(release)
            if run is None:
                break
        since = release
    return since


def speaks_for(run: NativeRun, release: str) -> bool:
    """Whether ``release`` registers a kernel for everything that ``run`` called, and refuses none of it."""
    table = load_table(release)
    if not _takes(run, table):
        return False
    return all(
        _has_kernel(operator, table)
        and _same_refusals(operator, run.release, release)
        and not _refuses_more(operator, run, release)
        for operator in run.operators
    )


def speaks_for_table(run: NativeRun, table: KernelTable) -> bool:
    """The same for the table of another backend, of which no refusals are known."""
    copies, verdict, _ = other_copies(table)
    taken = {copies} if verdict == "native" else set()
    return _takes(run, table) and all(name in taken or _has_kernel(name, table) for name in run.operators)


def _takes(run: NativeRun, table: KernelTable) -> bool:
    if run.autocast and key_of(table) not in table.keys:
        return False
    return run.dtypes.isdisjoint(DtypeRules(table).refused)


def _has_kernel(operator: str, table: KernelTable) -> bool:
    namespace = operator.partition("::")[0]
    covering = libraries_for(table).get(namespace, table) if namespace != "aten" else table
    verdict = covering.verdict(operator, serving_key(operator, table.backend.key))
    return verdict == "native" or (table.is_mps and operator in ALWAYS_NATIVE and verdict == "composite")


@functools.cache
def _rules(release: str) -> Rules:
    return rules_for(load_table(release))


def _refuses_more(operator: str, run: NativeRun, release: str) -> bool:
    """Whether ``release`` has a rule for ``operator`` that the run's release has not, and that its dtypes may meet."""
    rules = _rules(release).get(operator, ())
    if not rules:
        return False
    known, met = _rules(run.release).get(operator, ()), run.met.get(operator, run.dtypes)
    return any(rule not in known and (rule.dtypes is None or not rule.dtypes.isdisjoint(met)) for rule in rules)


def _same_refusals(operator: str, one: str, other: str) -> bool:
    changes = (Version(release) for release in REFUSALS_CHANGE.get(operator, ()))
    return all((Version(one) < change) == (Version(other) < change) for change in changes)
