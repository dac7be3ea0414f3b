"""What kernels say when they raise: the guard messages in each release's library.

A table of guards for each area (``messages_*.py``): the message, the operators, what is checked. Each check was read in
the machine code of the function that refers to the message, in macOS libraries from 1.12.1 to 2.15.0, and compared with
PyTorch's source of a near commit, whose file and function a comment names. A message whose check could not be
established has no guard; ``docs/explanation/verdicts.md`` lists those.

Only messages that no kernel for another backend raises with are there: the library holds the CPU's too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from packaging.version import Version

from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.refusals import (
    messages_indexing,
    messages_linear_algebra,
    messages_networks,
    messages_pointwise,
)
from mpsprobe_coverage.device.refusals.call import Call, Rule
from mpsprobe_coverage.device.refusals.messages_guards import Both, Guard
from mpsprobe_coverage.kernels.markers import MARKER_STRINGS
from mpsprobe_coverage.kernels.releases import torch_releases
from mpsprobe_coverage.kernels.store import load_table
from mpsprobe_coverage.kernels.table import KernelTable

GUARDS: tuple[Guard, ...] = (
    *messages_indexing.GUARDS,
    *messages_linear_algebra.GUARDS,
    *messages_networks.GUARDS,
    *messages_pointwise.GUARDS,
)


GuardsByName = Mapping[str, tuple[Guard, ...]]


@dataclass(frozen=True)
class Message:
    """A guard of one operator. Equal in all releases that have it."""

    guard: Guard
    operator: str
    guards: tuple[Guard, ...] = field(repr=False, compare=False)  # those that `accepted_since` asks in each release

    @property
    def dtypes(self) -> frozenset[torch.dtype] | None:
        return self.guard.refuses.dtypes

    @property
    def only_dtypes(self) -> bool:
        """Whether nothing but the dtype counts, so that a test that passes with it contradicts the rule."""
        return not isinstance(self.guard.refuses, Both)

    def __call__(self, call: Call) -> Refusal | None:
        dtypes = self.dtypes  # to look an argument up takes longer than this
        if dtypes is not None and all(spec.dtype not in dtypes for spec in (*call.inputs, *call.outputs)):
            return None
        if not self.guard.refuses(call):
            return None
        (message, *_) = MARKER_STRINGS[self.guard.marker]
        since = _accepted_since(self.operator, call, self.guards)
        return Refusal(message.strip(" ,"), since, source="message", evidence=message)


def rules(table: KernelTable) -> dict[str, tuple[Rule, ...]]:
    """A rule for each guard of each operator that has a kernel in the release of ``table``."""
    return rules_from(GUARDS, table)


def rules_from(guards: Iterable[Guard], table: KernelTable) -> dict[str, tuple[Rule, ...]]:
    """The same for any table of guards."""
    every = tuple(guards)
    return {
        operator: tuple(Message(guard, operator, every) for guard in found)
        for operator, found in _active(every, table.release, table).items()
    }


def rules_of(operator: str, table: KernelTable) -> tuple[Rule, ...]:
    """The rules of one operator: what ``rules`` has for it, without working out the others."""
    return rules_among(_own_guards(table.release, table.markers), GUARDS, operator, table)


@functools.cache
def _own_guards(release: str, markers: frozenset[str]) -> GuardsByName:
    return guards_by_name(GUARDS, release, markers)


def rules_among(
    by_name: GuardsByName, guards: tuple[Guard, ...], operator: str, table: KernelTable
) -> tuple[Rule, ...]:
    """The same for any table of guards; ``by_name`` is what ``guards_by_name`` makes of it for the release."""
    if table.library != "torch" or (operator not in table.native and operator not in table.python):
        return ()
    return tuple(Message(guard, operator, guards) for guard in _matching(by_name, operator))


def _active(guards: tuple[Guard, ...], release: str, table: KernelTable) -> dict[str, tuple[Guard, ...]]:
    """Operator → the guards that its kernel has."""
    if table.library != "torch":
        return {}
    by_name = guards_by_name(guards, release, table.markers)
    matching = {operator: _matching(by_name, operator) for operator in table.native | table.python}
    return {operator: found for operator, found in matching.items() if found}


def guards_by_name(guards: tuple[Guard, ...], release: str, markers: frozenset[str]) -> GuardsByName:
    """Name of an operator, as guards have it → the guards that hold in the release."""
    by_name: dict[str, tuple[Guard, ...]] = {}
    for guard in guards:
        if guard.marker in markers and (guard.before is None or Version(release) < Version(guard.before)):
            for name in guard.operators:
                by_name[name] = (*by_name.get(name, ()), guard)
    return by_name


def _matching(by_name: GuardsByName, operator: str) -> tuple[Guard, ...]:
    namespace, _, name = operator.partition("::")
    if namespace != "aten":
        return ()
    base = name.partition(".")[0]
    names = dict.fromkeys((name, base, base.removesuffix("_")))
    return tuple(guard for one in names for guard in by_name.get(one, ()))


@functools.cache
def _active_in(guards: tuple[Guard, ...], release: str) -> dict[str, tuple[Guard, ...]]:
    return _active(guards, release, load_table(release))


def _accepted_since(operator: str, call: Call, guards: tuple[Guard, ...]) -> str | None:
    """The first release from which on none refuses this call, with whatever message."""
    since = None
    for release in reversed(torch_releases()):
        if any(guard.refuses(call) for guard in _active_in(guards, release).get(operator, ())):
            break
        since = release
    return since
