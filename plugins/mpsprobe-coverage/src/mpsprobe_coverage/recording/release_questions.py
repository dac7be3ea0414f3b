"""What a run asks of its release, and which other releases answer the same: on those it runs in the same way.

A run depends on its release by what is asked here and by nothing else: how an operator that it meets is registered and
goes on, which routes and compositions hold for it, whether the release is new enough for something, and whether a
kernel is there. So a release that answers each question alike needs no run of its own. What its judges say about the
calls is asked too (``Chain.others``); one that comes to another verdict is left out as well.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache, cached_property, partial
from types import CellType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.knowledge.calls.keys import has_kernel, is_implicit, operator_name, overload_named
from mpsprobe_coverage.knowledge.calls.spec import tensors_in
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.judging.renames import renames
from mpsprobe_coverage.knowledge.kernels.compositions import HARMLESS, AsInstalled, Composition, Differences
from mpsprobe_coverage.knowledge.kernels.releases import installed_release
from mpsprobe_coverage.knowledge.kernels.table import COMPOSITE, UNKNOWN, KernelTable
from mpsprobe_coverage.recording.attribution import Attribution
from mpsprobe_coverage.recording.dispatch import Plan, Route
from mpsprobe_coverage.recording.planning import make_plan
from mpsprobe_coverage.recording.recorder import Recorder
from mpsprobe_coverage.recording.routing import routes_for

_current_node: Callable[[], Any] = torch._C._current_autograd_node
# Made by autograd's engine while a node is still the current one: of a tensor that is used twice, or was broadcast.
SUMS_OF_GRADIENTS = frozenset({"aten::add.Tensor", "aten::sum.dim_IntList"})
_IMPLICIT = DispatchKey.CompositeImplicitAutograd
_EXPLICIT = (DispatchKey.CompositeExplicitAutogradNonFunctional, DispatchKey.CompositeExplicitAutograd)


class Asked:
    """The release of ``chain`` as a run asks about it; those of ``Chain.others`` that answer otherwise are left out."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._known: set[Hashable] = set()
        self._answers: list[tuple[Callable[[Chain], Any], Any]] = []

    def alike(self, chain: Chain) -> bool:
        """Whether the release of ``chain`` would call the same operators at the places where a route asked."""
        return all(of(chain) == known for of, known in self._answers)

    def unite(self, others: Iterable[Asked]) -> None:
        """Answer for what other runs on the same release asked too."""
        self._answers += [answer for other in others for answer in other._answers]

    def at_least(self, version: str, *, for_memory: bool = False) -> bool:
        """Whether the release is ``version`` or newer; ``for_memory`` where nothing that is called depends on it."""
        question = ("memory" if for_memory else "version", version)
        return bool(self._answer(question, lambda chain: chain.table.at_least(version), kept=not for_memory))

    def has_kernel(self, operator: str) -> bool:
        return bool(self._answer(("kernel", operator), lambda chain: operator in chain.table.native))

    def autocast(self) -> None:
        key = self._chain.table.autocast_key
        self._answer(("autocast", key), lambda chain: chain.table.keys.get(key))

    def of_libraries(self, questions: Mapping[Hashable, Callable[[str], Any]]) -> None:
        """What libraries asked about torch, by its name: what a release answers (``devices/virtual/libraries.py``)."""
        for name, of in questions.items():
            self._answer(("library", name), partial(lambda of, chain: of(chain.table.release), of))

    def planned(self, plan: Plan, key: str | None) -> None:
        self._leave_out(lambda other: not _alike(plan, other.plan(plan.func, key)))

    def others_compose(self, name: str) -> bool:
        return any(other.composing.own(name) is not None for other in self._alike_still())

    def composed(self, name: str, of: Callable[[Composition | None], bool], answer: bool, about: str) -> None:
        """What is asked ``about`` the composition of the operator or node ``name``: ``of`` answers for it."""
        question = about, name
        if question not in self._known:
            self._known.add(question)
            self._leave_out(lambda other: of(other.composing.own(name)) != answer)

    def goes_on_alike(self, func: Any, key: str | None, chain: Chain) -> bool:
        return _alike(_other(self._chain).plan(func, key), _other(chain).plan(func, key))

    def above_autograd(self) -> frozenset[str]:
        """Composite operators that one of the other releases treats above autograd, where no mode sees them."""
        return frozenset[str]().union(*(other.above for other in self._alike_still()))

    def _alike_still(self) -> Iterator[_Other]:
        return (_other(chain) for chain, alike in zip(self._chain.others, self._chain.alike, strict=True) if alike)

    def _answer(self, question: tuple[str, Hashable], of: Callable[[Chain], Any], kept: bool = True) -> Any:
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


def _alike(plan: Plan, other: Plan) -> bool:
    return (
        plan.name == other.name
        and plan.registered.verdict == other.registered.verdict
        and plan.entry is other.entry
        and plan.composite_key is other.composite_key
        and plan.decomposition is other.decomposition
        and _same(plan.route, other.route)
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


# Which calls rest on a composition that is not known to be the target release's.
#
# Composite kernels and derivatives are run as the installed torch has them. Where the target release makes one of other
# operators (`kernels/compositions.py`), a call inside that this release does not make there is marked; so is every call
# inside, where that release calls an operator there that it has no kernel for. Most composite kernels run above
# autograd, where no dispatch mode sees them: those that differ get a Python kernel there, which only says that they
# run.
class Composing:
    """What runs at this moment and is composed otherwise on the release of ``table``."""

    def __init__(self, table: KernelTable, others: Asked | None = None, differences: Differences | None = None) -> None:
        self._table, self._others = table, others
        self.differences = differences or Differences(table, installed_release())
        self.differ = bool(self.differences.names)  # does the release compose anything otherwise than the installed?
        self._inside: Composition | None = None
        self._as_installed: set[str] = set()

    def difference(self, name: str) -> Composition | None:
        """What to be ``inside`` of while ``name`` runs; None where nothing differs, on the other releases neither."""
        if name in self._as_installed:
            return None
        composition = self.own(name)
        if self._others is not None:
            if composition is None and self._others.others_compose(name):
                composition = AsInstalled(name)
            self._others.composed(name, _lacks_kernel, _lacks_kernel(composition), "lacks")
        if composition is None:  # for good: there are never more of the other releases
            self._as_installed.add(name)
        return composition

    def own(self, name: str) -> Composition | None:
        """As ``Differences.of``; an operator that the release does not have calls nothing there."""
        composition = self.differences.of(name)
        if composition is None and self.differ and name.startswith("aten::") and self._table.verdict(name) == UNKNOWN:
            composition = Composition(name, frozenset(), lacks_kernel=False)
        return composition

    def _has(self, around: Composition, operator: str) -> bool:
        has = around.has(operator)
        if self._others is not None:
            self._others.composed(around.name, lambda own: own is None or own.has(operator), has, f"has {operator}")
        return has

    @contextmanager
    def inside(self, composition: Composition) -> Iterator[None]:
        """Run it. One that the release does not call at this place counts as a part of what is around it."""
        around = self._around()
        if around is not None and self._others is not None:  # where it does not differ, that goes on to be around
            differs = not isinstance(composition, AsInstalled)
            self._others.composed(composition.name, lambda own: own is not None, differs, "differs")
        if around is None or self._has(around, composition.name):
            around, self._inside = self._inside, composition
        else:
            around, self._inside = self._inside, around
        try:
            yield
        finally:
            self._inside = around

    def current(self) -> str | None:
        around = self._around()
        return None if around is None else around.name

    def mark(self, operator: str) -> str | None:
        """What calls ``operator`` at this moment, if the target release does not do so there, or does more."""
        around = self._around()
        if around is None or (self._has(around, operator) and not around.lacks_kernel):
            return None
        if operator.removeprefix("aten::").partition(".")[0] in HARMLESS:
            return None
        return None if around.name[0].isupper() and operator in SUMS_OF_GRADIENTS else around.name

    def _around(self) -> Composition | None:
        if self._inside is not None or not (self.differ or self._others):
            return self._inside
        node = _current_node()
        return None if node is None else self.difference(node.name())

    def above_autograd(self, routed: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
        """Python kernels for the AutogradMPS key, by operator: of the composite ones that differ and have no route."""
        kernels: dict[str, Callable[..., Any]] = {}
        for operator in sorted(self.differences.operators - routed.keys() - renames(self._table).keys()):
            followed = self._table.verdict(operator) in (COMPOSITE, UNKNOWN) and _is_followed_above(operator)
            composition = self.differences.of(operator)
            if composition is not None and followed:
                kernels[operator] = partial(self._run, overload_named(operator), composition)
        return kernels

    def below_autograd(self, taken: Container[str]) -> dict[str, Callable[..., Any]]:
        """The same for the backend's key: composite operators with a derivative that differ, or are not there."""
        kernels: dict[str, Callable[..., Any]] = {}
        for operator in sorted(torch._C._dispatch_get_all_op_names()) if self.differ else ():
            key = next((key for key in _EXPLICIT if has_kernel(operator, key.name)), None)
            composition = None if key is None or operator in taken else self.difference(operator)
            if composition is not None and not (func := overload_named(operator)).is_view:
                kernels[operator] = partial(self._run, func, composition, key=key)
        return kernels

    def above(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the composite kernel of ``func``, which another release composes otherwise, or registers."""
        composition = self.difference(operator_name(func))
        with nullcontext() if composition is None else self.inside(composition):
            return func._op_dk(_IMPLICIT, *args, **kwargs)

    def _run(self, func: Any, composition: Composition, *args: Any, key: Any = _IMPLICIT, **kwargs: Any) -> Any:
        with self.inside(composition):
            return func._op_dk(key, *args, **kwargs)


def _lacks_kernel(composition: Composition | None) -> bool:
    return composition is not None and composition.lacks_kernel


@cache
def _is_followed_above(operator: str) -> bool:
    """Whether its composite kernel runs above autograd and computes; Python has no names of dimensions."""
    if not is_implicit(operator) or has_kernel(operator, "AutogradMPS"):
        return False
    func = overload_named(operator)
    computes = not func.is_view and any("Tensor" in str(result.type) for result in func._schema.returns)
    return computes and "Dimname" not in str(func._schema)


# Operators that have a kernel and no derivative in the release, because they are composite on other devices.
# `linalg_lu_factor` had a kernel of MPS from 2.5 to 2.9 (pytorch#99269, taken out by pytorch#165871). With a kernel
# autograd does not use the composite one, and there is no formula: the result requires a gradient and passes none on.
# PyTorch warns of that in the backward pass, where it says nothing of MPS; here the report says it.
@cache
def is_composite(name: str) -> bool:
    """Whether autograd goes through the operator in the installed torch by what it is made of."""
    return is_implicit(name) and not has_kernel(name, "Autograd")


def now_composite(table: KernelTable) -> frozenset[str]:
    """Those with a derivative in the release that the installed torch makes of one with another name (``prelu``)."""
    return frozenset(name for name in renames(table).values() if is_composite(name))


def ending_gradients(table: KernelTable, recorder: Recorder, attribution: Attribution) -> dict[str, Callable[..., Any]]:
    names = (n for n in table.native - now_composite(table) if n.startswith("aten::") and is_composite(n))
    # Those that write into their arguments (``diag.out``) are called below autograd.
    overloads = ((name, overload_named(name)) for name in names)

    def ends(name: str) -> None:
        if recorder.phase is not None:
            recorder.gradients_end[name] = attribution.current()

    return {
        name: partial(_run_and_end, func, partial(ends, name))
        for name, func in overloads
        if not func._schema.is_mutable
    }


def _run_and_end(func: Any, ends: Callable[[], None], *args: Any, **kwargs: Any) -> Any:
    def below_autograd() -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return func(*args, **kwargs)

    return _Ends.apply(below_autograd, ends, *tensors_in((args, kwargs)))


class _Ends(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Callable[[], Any], ends: Callable[[], None], *tensors: torch.Tensor) -> Any:
        ctx.ends, ctx.count = ends, len(tensors)
        ctx.set_materialize_grads(False)
        result = run()
        return tuple(result) if isinstance(result, tuple) else result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.ends()
        return (None,) * (2 + ctx.count)
