"""Which calls rest on a composition that is not known to be the target release's.

Composite kernels and derivatives are run as the installed torch has them. Where the target release makes one of other
operators (``kernels/compositions.py``), a call inside that this release does not make there is marked; so is every call
inside, where that release calls an operator there that it has no kernel for. Most composite kernels run above autograd,
where no dispatch mode sees them: those that differ get a Python kernel there, which only says that they run.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.knowledge.calls.keys import has_kernel, is_implicit, operator_name, overload_named
from mpsprobe_coverage.knowledge.calls.spec import tensors_in
from mpsprobe_coverage.knowledge.judging.renames import renames
from mpsprobe_coverage.knowledge.kernels.compositions import HARMLESS, AsInstalled, Composition, Differences
from mpsprobe_coverage.knowledge.kernels.releases import installed_release
from mpsprobe_coverage.knowledge.kernels.table import COMPOSITE, UNKNOWN, KernelTable
from mpsprobe_coverage.recording.attribution import Attribution
from mpsprobe_coverage.recording.recorder import Recorder

_current_node: Callable[[], Any] = torch._C._current_autograd_node
# Made by autograd's engine while a node is still the current one: of a tensor that is used twice, or was broadcast.
SUMS_OF_GRADIENTS = frozenset({"aten::add.Tensor", "aten::sum.dim_IntList"})
_IMPLICIT = DispatchKey.CompositeImplicitAutograd
_EXPLICIT = (DispatchKey.CompositeExplicitAutogradNonFunctional, DispatchKey.CompositeExplicitAutograd)


class Others(Protocol):
    """The other releases that a run is about: ``Asked`` in ``release_questions.py``, which leaves some out."""

    def others_compose(self, name: str) -> bool: ...
    def answered(self, question: Question, answer: bool) -> None: ...


class Question(NamedTuple):
    """What a run asks about the composition of ``name``: ``differs``, ``lacks`` (a kernel), or ``has`` an operator."""

    name: str
    about: str
    operator: str = ""


class Composing:
    """What runs at this moment and is composed otherwise on the release of ``table``."""

    def __init__(
        self, table: KernelTable, others: Others | None = None, differences: Differences | None = None
    ) -> None:
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
            self._others.answered(Question(name, "lacks"), composition is not None and composition.lacks_kernel)
        if composition is None:  # for good: there are never more of the other releases
            self._as_installed.add(name)
        return composition

    def own(self, name: str) -> Composition | None:
        """As ``Differences.of``; an operator that the release does not have calls nothing there."""
        composition = self.differences.of(name)
        if composition is None and self.differ and name.startswith("aten::") and self._table.verdict(name) == UNKNOWN:
            composition = Composition(name, frozenset(), lacks_kernel=False)
        return composition

    def answer(self, question: Question) -> bool:
        composition = self.own(question.name)
        if question.about == "differs":
            return composition is not None
        if question.about == "lacks":
            return composition is not None and composition.lacks_kernel
        return composition is None or composition.has(question.operator)

    def _has(self, around: Composition, operator: str) -> bool:
        has = around.has(operator)
        if self._others is not None:
            self._others.answered(Question(around.name, "has", operator), has)
        return has

    @contextmanager
    def inside(self, composition: Composition) -> Iterator[None]:
        """Run it. One that the release does not call at this place counts as a part of what is around it."""
        around = self._around()
        if around is not None and self._others is not None:  # where it does not differ, that goes on to be around
            self._others.answered(Question(composition.name, "differs"), not isinstance(composition, AsInstalled))
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
        if around is None or (self._has(around, operator) and not around.lacks_kernel) or _is_harmless(operator):
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


@cache
def _is_followed_above(operator: str) -> bool:
    """Whether its composite kernel runs above autograd and computes; Python has no names of dimensions."""
    if not is_implicit(operator) or has_kernel(operator, "AutogradMPS"):
        return False
    func = overload_named(operator)
    computes = not func.is_view and any("Tensor" in str(result.type) for result in func._schema.returns)
    return computes and "Dimname" not in str(func._schema)


def _is_harmless(operator: str) -> bool:
    return operator.removeprefix("aten::").partition(".")[0] in HARMLESS


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
