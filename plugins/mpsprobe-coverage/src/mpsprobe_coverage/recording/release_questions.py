"""What a run asks of its release, and which other releases answer the same: on those it runs in the same way.

A run depends on its release by what is asked here and by nothing else: how an operator that it meets is registered and
goes on, which routes and compositions hold for it, whether the release is new enough for something, and whether a
kernel is there. So a release that answers each question alike needs no run of its own. What its judges say about the
calls is asked too (``Chain.others``); one that comes to another verdict is left out as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import CellType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.recording.composing import Composing, Question, is_composite
from mpsprobe_coverage.recording.dispatch import Plan, Route
from mpsprobe_coverage.recording.planning import make_plan
from mpsprobe_coverage.recording.routing import routes_for


class Asked:
    """The release of ``chain`` as a run asks about it; those of ``Chain.others`` that answer otherwise are left out."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._known: set[tuple[str, ...]] = set()
        self._answers: list[tuple[Callable[[Chain], Any], Any]] = []

    def alike(self, chain: Chain) -> bool:
        """Whether the release of ``chain`` would call the same operators at the places where a route asked."""
        return all(of(chain) == found for of, found in self._answers)

    def at_least(self, version: str, *, for_memory: bool = False) -> bool:
        """Whether the release is ``version`` or newer; ``for_memory`` where nothing that is called depends on it."""
        question = ("memory" if for_memory else "version", version)
        return bool(self._answer(question, lambda chain: chain.table.at_least(version), kept=not for_memory))

    def has_kernel(self, operator: str) -> bool:
        return bool(self._answer(("kernel", operator), lambda chain: operator in chain.table.native))

    def autocast(self) -> None:
        key = self._chain.table.autocast_key
        self._answer(("autocast", key), lambda chain: chain.table.keys.get(key))

    def planned(self, plan: Plan, key: str | None) -> None:
        self._leave_out(lambda other: not _alike(plan, other.plan(plan.func, key)))

    def others_compose(self, name: str) -> bool:
        return any(other.composing.own(name) is not None for other in self._alike_still())

    def answered(self, question: Question, answer: bool) -> None:
        if question not in self._known:
            self._known.add(question)
            self._leave_out(lambda other: other.composing.answer(question) != answer)

    def goes_on_alike(self, func: Any, key: str | None, chain: Chain) -> bool:
        return _alike(_other(self._chain).plan(func, key), _other(chain).plan(func, key))

    def above_autograd(self) -> frozenset[str]:
        """Composite operators that one of the other releases treats above autograd, where no mode sees them."""
        return frozenset[str]().union(*(other.above for other in self._alike_still()))

    def _alike_still(self) -> Iterator[_Other]:
        return (_other(chain) for chain, alike in zip(self._chain.others, self._chain.alike, strict=True) if alike)

    def _answer(self, question: tuple[str, str], of: Callable[[Chain], Any], kept: bool = True) -> Any:
        answer = of(self._chain)
        if question not in self._known:
            self._known.add(question)
            if kept:
                self._answers.append((of, answer))
            self._leave_out(lambda other: of(other.chain) != answer)
        return answer

    def _leave_out(self, differs: Callable[[_Other], bool]) -> None:
        for number, chain in enumerate(self._chain.others):
            if self._chain.alike[number] and differs(_other(chain)):
                self._chain.alike[number] = False


class _Other:
    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self._routes = routes_for(chain.table)
        self._plans: dict[tuple[Any, str | None], Plan] = {}

    @cached_property
    def composing(self) -> Composing:
        return Composing(self.chain.table)  # comparing takes ten milliseconds

    @cached_property
    def above(self) -> frozenset[str]:
        routed = {name for name, route in self._routes.items() if route.above_autograd is not None}
        table = self.chain.table
        names = routed | self.composing.above_autograd(self._routes).keys() | table.native | table.fallback
        return frozenset(n for n in names if n.startswith("aten::") and is_composite(n))

    def plan(self, func: Any, key: str | None) -> Plan:
        if (func, key) not in self._plans:
            self._plans[func, key] = make_plan(func, self.chain, {} if key else self._routes, key)
        return self._plans[func, key]


_others: WeakKeyDictionary[Chain, _Other] = WeakKeyDictionary()


def _other(chain: Chain) -> _Other:
    if chain not in _others:
        _others[chain] = _Other(chain)
    return _others[chain]


def _alike(one: Plan, other: Plan) -> bool:
    return (
        one.name == other.name
        and one.registered.verdict == other.registered.verdict
        and one.entry is other.entry
        and one.composite_key is other.composite_key
        and one.decomposition is other.decomposition
        and _same(one.route, other.route)
    )


def _same(one: Any, other: Any) -> bool:
    """Whether two functions, or routes made of functions, do the same: the same code, around the same."""
    if isinstance(one, CellType) and isinstance(other, CellType):
        return _same(one.cell_contents, other.cell_contents)
    if isinstance(one, Route) and isinstance(other, Route):
        return one.only_without_kernel == other.only_without_kernel and all(
            _same(getattr(one, name), getattr(other, name)) for name in ("run", "above_autograd")
        )
    if isinstance(one, FunctionType) and isinstance(other, FunctionType) and one.__code__ is other.__code__:
        around = one.__closure__ or (), other.__closure__ or ()
        return all(map(_same, *around)) and one.__defaults__ == other.__defaults__
    return one is other or (isinstance(one, Mapping | str | int) and one == other)


def asked(chain: Chain) -> tuple[Asked, Composing]:
    release = Asked(chain)
    differences = _other(chain).composing.differences
    return release, Composing(chain.table, release if any(chain.alike) else None, differences)
