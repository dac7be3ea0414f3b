"""Who judges a call, in order of precedence; the first that does not pass decides.

- ``dtype``: a tensor of a dtype that none can have, with which no operator is ever reached;
- ``route``: C++ that raises where it asks for the device type, before a kernel is looked up;
- ``devices``: a tensor on the CPU where the kernel wants one on the device;
- ``guard``: a message with which the kernel itself raises, for a dtype or an argument;
- ``factors``: a complex number that the kernel takes as a real one;
- ``size``: a guard about sizes;
- ``switches``: a dtype with which the code of the kernel can only raise;
- ``metal``: a dtype that the Metal library has no kernel for;
- ``stub``: a DispatchStub that nothing sets;
- ``graphs``: a tensor that no MPSGraph takes, where the kernel always makes one;
- ``lists``: what PyTorch's own tests expect to fail;
- ``frameworks``: ranks, dtypes and sizes with which the kernel fails inside Apple's frameworks, as users report;
- ``macos``: what a release refuses on an older macOS, where one was named;
- ``left_to_cpu``: what the kernel itself leaves to the CPU;
- ``fallback``: what the fallback to the CPU cannot do;
- ``registration``: what the release registers. It never passes.

A judge is a module of this room with ``rules_of(operator, table)``: its rules for one operator on one release (those of
``dtype`` are for all). From ``devices`` to ``left_to_cpu`` they speak of kernels, so they are asked where one is
registered; ``fallback`` where none is. No judge knows the device that recorded the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from packaging.version import Version

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.keys import operator_name, serving_key
from mpsprobe_coverage.knowledge.judging import (
    devices,
    dtype,
    factors,
    fallback,
    frameworks,
    graphs,
    guard,
    left_to_cpu,
    lists,
    macos,
    metal,
    registration,
    route,
    size,
    stub,
    switches,
)
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, Rule
from mpsprobe_coverage.knowledge.judging.lists import Lists
from mpsprobe_coverage.knowledge.judging.renames import renames
from mpsprobe_coverage.knowledge.kernels.table import MISSING, MPS, NATIVE, KernelTable

# Whose kernels are known beyond their registrations, by the dispatch key of the backend.
_ABOUT_KERNELS: Mapping[str, tuple[Any, ...]] = {MPS: (guard, factors, size, switches, metal, stub, graphs)}


@dataclass(frozen=True, slots=True)
class Judges:
    """Those of one operator."""

    operator: str  # as the release calls it
    registered: Judgement  # what the last judge says
    rules: tuple[Rule, ...] = ()  # of the others, in the order in which they are asked
    later: tuple[Rule, ...] = ()  # what the first release with a kernel leaves to the CPU, or fails at
    others: tuple[Judges, ...] = ()  # those of `Chain.others`
    kinds: tuple[int, ...] = ()  # a number for each of them: the same for equal rules, 0 for those of these judges
    alike: list[bool] = field(default_factory=list, compare=False)  # `Chain.alike`
    names: tuple[str, ...] = field(init=False, compare=False)  # of all judges that are asked where no rule answers

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", (*_names(self.rules), "registration"))

    def but_registered(self, judgement: Judgement) -> Self:
        """The same judges where the last one says ``judgement``."""
        others = tuple(judges.but_registered(judgement) for judges in self.others)
        return replace(self, registered=judgement, others=others)

    def together(self, others: tuple[Judges, ...], alike: list[bool]) -> Self:
        distinct = [(self.rules, self.later, self.registered)]
        kinds = []
        for judges in others:
            rules = (judges.rules, judges.later, judges.registered)
            if rules not in distinct:
                distinct.append(rules)
            kinds.append(distinct.index(rules))
        return replace(self, others=others, kinds=tuple(kinds), alike=alike)

    def judge(self, call: Call) -> Judgement:
        own = self._judge(call)
        if not any(self.alike):
            return own
        answers: list[Judgement | None] = []
        of_kind = {0: own}
        for judges, kind, alike in zip(self.others, self.kinds, self.alike, strict=True):
            answer = of_kind.get(kind) if alike else None
            # What a rule says may name its release.
            if alike and (answer is None or answer.asked[-1] != "registration"):
                of_kind[kind] = answer = judges._judge(call)
            answers.append(answer)
        return own._replace(others=tuple(answers))

    def _judge(self, call: Call) -> Judgement:
        for position, rule in enumerate(self.rules, 1):
            judgement = rule(call)
            if judgement is not None:
                return judgement._replace(asked=_names(self.rules[:position]))
        left = next(filter(None, (rule(call) for rule in self.later)), None)
        since = self.registered.accepted_since if left is None else left.accepted_since
        return self.registered._replace(asked=self.names, accepted_since=since)


def _names(rules: Sequence[Rule]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rule.judge for rule in rules))


def _later(operator: str, registered: Judgement, table: KernelTable) -> tuple[Rule, ...]:
    since = registered.accepted_since
    if registered.verdict not in ("missing", "fallback") or since is None or table.backend.key not in _ABOUT_KERNELS:
        return ()
    first = table.family.load(since)
    return (*frameworks.rules_of(operator, first), *left_to_cpu.rules_of(operator, first))


class Chain:
    """The judges of one release. Raises ``PluginError``: a plugin's table names a dtype that torch does not have.

    Args:
        libraries: tables of further libraries (torchvision), by namespace.
        lists: which lists of PyTorch's tests are a source in addition to the mechanism; see ``lists.py``.
        macos: the macOS to judge for; None for any that the release runs on.
        others: chains of further releases, whose judgements each judgement has with it as long as they are ``alike``:
            as long as a run on this release is one on that too, as far as is known.
    """

    def __init__(
        self,
        table: KernelTable,
        libraries: Mapping[str, KernelTable] | None = None,
        lists: Lists = "own",
        macos: Version | None = None,
        others: Sequence[Chain] = (),
    ) -> None:
        self.table, self.others = table, tuple(others)
        self.alike = [True] * len(self.others)
        self.tables = {**dict.fromkeys(table.namespaces, table), **(libraries or {})}
        self._lists, self.macos = lists, macos
        self._renames = renames(self.table)
        self.everywhere = dtype.rules_of(table)
        self._known: dict[tuple[Any, str | None], Judges] = {}
        self._rules: dict[str, tuple[Rule, ...]] = {}

    def judges_of(self, func: Any, key: str | None = None) -> Judges:
        """The judges of an overload of the installed torch.

        ``key``: that of the call's arguments where those are sparse; nothing is known of those kernels.
        """
        judges = self._known.get((func, key))
        if judges is None:
            others = tuple(chain.judges_of(func, key) for chain in self.others)
            judges = self._known[func, key] = self._judges(func, key).together(others, self.alike)
        return judges

    def rules_of(self, operator: str) -> tuple[Rule, ...]:
        """The rules that are asked about dense calls of ``operator``, as the release calls it, before registration."""
        if operator not in self._rules:
            self._rules[operator] = tuple(self._rules_of(operator))
        return self._rules[operator]

    def _rules_of(self, operator: str) -> Iterator[Rule]:
        table = self.tables.get(operator.partition("::")[0], self.table)
        yield from self.everywhere
        yield from route.rules_of(operator, self.table)
        verdict = table.verdict(operator, serving_key(operator, table.backend.key))
        if verdict == MISSING:
            yield from fallback.rules_of(operator, table)
        if verdict == NATIVE:
            yield from devices.rules_of(operator, table)
        judges = _ABOUT_KERNELS.get(table.backend.key)
        if judges is None or not registration.is_native(operator, table):
            return
        if verdict == NATIVE:
            mechanism = tuple(rule for judge in judges for rule in judge.rules_of(operator, self.table))
            yield from lists.uncontradicted(operator, mechanism, self.table, self._lists)
            yield from lists.rules_of(operator, self.table, self._lists)
        else:  # copy_
            yield from switches.rules_of(operator, self.table)
        yield from frameworks.rules_of(operator, self.table, self.macos)
        yield from macos.rules_of(operator, self.table, self.macos)
        yield from left_to_cpu.rules_of(operator, self.table)

    def _judges(self, func: Any, key: str | None) -> Judges:
        name = operator_name(func)
        table = self.tables.get(func.namespace)
        if table is None:
            return Judges(name, registration.NO_TABLE, self.everywhere)
        name = self._renames.get(name, name)
        registered = registration.registered(func, name, table, key)
        if key is None:
            return Judges(name, registered, self.rules_of(name), _later(name, registered, table))
        return Judges(name, registered, (*self.everywhere, *fallback.sparse_rules_of(table)))
