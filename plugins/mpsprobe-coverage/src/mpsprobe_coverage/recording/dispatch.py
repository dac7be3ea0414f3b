"""What the parts of the device know of each other: an operator's plan, a route, and the dispatch that follows both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from fractions import Fraction
from typing import Any, Protocol

import torch

from mpsprobe_coverage.knowledge.advisories.model import Advisory
from mpsprobe_coverage.knowledge.advisories.words import Condition
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import Specs
from mpsprobe_coverage.knowledge.judging.chain import Judges
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.kernels.compositions import Composition
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

CALLS_KEPT = 2**10  # of one overload: a long program makes ever new ones
LARGE = (1 << 31) - 1  # elements: from there on kernels refuse sizes


def are_large(specs: Specs) -> bool:
    return any(spec.numel >= LARGE for spec in specs)


class Entry(Enum):
    """What stands for an operator in the dispatch table of the target release, and so how a call of it goes on."""

    KERNEL = auto()  # a leaf: judged, and run by its reference
    COMPOSITE = auto()  # run the composite kernel, whose own calls are judged
    VIEW = auto()  # a composite view: `as_strided` and its like, native in every release
    DECOMPOSITION = auto()  # not in the target release: run a Python decomposition instead
    ROUTE = auto()  # C++ chooses by device type here: a route of ours chooses as it would on a Mac
    DATA_DEPENDENT = auto()  # what comes out depends on values: needs shadows


@dataclass(slots=True, eq=False)
class Plan:
    """The decision for one overload. Compared by identity: it is a dictionary key at every call."""

    func: Any
    entry: Entry
    judges: Judges
    composite_key: Any = None  # for COMPOSITE: the key whose kernel to run
    decomposition: Any = None
    route: Route | None = None
    mutable: bool = False
    written: tuple[tuple[int, str], ...] = ()  # arguments that are written: position and name
    returned: tuple[int | None, ...] = ()  # for each result, which of them it is, or None
    base: int | None = None  # the argument whose memory its results share
    takes_over: bool = False  # its first argument has the memory of the second afterwards
    inplace_view: bool = False
    assume: Callable[[Any, Any], None] | None = None  # notes what values of the result are taken for
    tensor_positions: tuple[int, ...] = ()  # arguments that are tensors in the schema
    generator_positions: tuple[tuple[int, str], ...] = ()  # arguments that are random generators: position and name
    run: Any = None  # what computes it without MPS: the overload itself, or a reference of ours
    composition: Composition | None = None  # set where it is taken apart in another way than the target release does
    watchers: tuple[Advisory, ...] = ()  # known wrong results of it in the target release
    asks: tuple[Condition, ...] = ()  # what these ask of each call, whether or not one like it was made before
    key: str | None = None  # the dispatch key of its arguments where those are sparse
    calls: list[Call] = field(default_factory=list)  # the kinds of call that were judged native, their tensors bare
    arithmetic: bool = False  # neither sizes nor refusals depend on the numbers that it is called with
    name: str = field(init=False)  # as the target release calls the operator; looked up at every call

    def __post_init__(self) -> None:
        self.name = self.judges.operator

    def keeps(self, inputs: Specs, outputs: Specs) -> bool:
        """Whether a call with tensors of these kinds is to be kept: the first ``CALLS_KEPT``, then large ones once."""
        if len(self.calls) < CALLS_KEPT:
            return True
        return are_large((*inputs, *outputs)) and not any(
            (call.inputs, call.outputs) == (inputs, outputs) for call in self.calls
        )

    @property
    def registered(self) -> Judgement:
        return self.judges.registered

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        arguments = self.func._schema.arguments
        defaults = {argument.name: argument.default_value for argument in arguments}
        return {**defaults, **dict(zip(defaults, args, strict=False)), **kwargs}


class Release(Protocol):
    """The target release, as routes ask about it while they run: ``Asked``."""

    def at_least(self, version: str) -> bool: ...
    def has_kernel(self, operator: str) -> bool: ...


class Dispatch(Protocol):
    """What routes, data-dependent operators and the Python surface ask of the device that is open.

    ``with dispatch:`` the calls inside are judged as those of a composite kernel are.
    """

    table: KernelTable
    sizes_of_cpu: bool  # results have the sizes that they have on the CPU, where MPS gives others
    other_sizes: str  # why a result had other sizes than on the CPU; empty if none had

    def __enter__(self) -> Any: ...
    def __exit__(self, *exc: Any) -> Any: ...
    @property
    def release(self) -> Release: ...
    @property
    def phase(self) -> str | None: ...  # what is recorded now; None for nothing
    @property
    def shadow_limit(self) -> int: ...  # the largest tensor whose real values are kept, as `shadow_cost` counts
    def plan_of(self, func: Any) -> Plan: ...
    # Judge, run and record one operator that is not followed any further; `raised`: by its composite kernel.
    def leaf(self, plan: Plan, args: Any, kwargs: Any, raised: str | None = None) -> Any: ...
    # Judge and record a call that was run elsewhere.
    def record(self, plan: Plan, args: Any, kwargs: Any, inputs: Specs, outputs: Specs) -> None: ...
    # A copy to or from the device; `dtype`: what it becomes there; `target`: into what, where the program has that.
    def record_transfer(
        self, tensor: torch.Tensor, dtype: torch.dtype | None = None, target: torch.Tensor | None = None
    ) -> None: ...
    # Note that the program read a value that is not known, and went on with `text`.
    def assumed(self, operator: str, text: str) -> None: ...
    # The same of the number or truth ``taken``; returned is what it goes on with.
    def guessed(self, operator: str, taken: Any) -> Any: ...
    def known_values(self, tensor: Any) -> torch.Tensor | None: ...
    # The real values on the CPU, or `fill` everywhere, with a note.
    def known_or_assumed(
        self, tensor: torch.Tensor, operator: str, text: str, fill: Fraction | int
    ) -> torch.Tensor: ...
    # To be open while `name` runs; None where the target release composes it as the installed torch does.
    def composing(self, name: str) -> AbstractContextManager[None] | None: ...
    def muted(self) -> AbstractContextManager[None]: ...  # nothing is recorded inside
    def in_float32(self) -> AbstractContextManager[None]: ...  # inside, factories make tensors of float32 for float64


Register = Callable[[str, Mapping[str, Callable[..., Any]]], None]


@contextmanager
def in_dispatcher() -> Iterator[Register]:
    """What registers kernels in Python under a dispatch key, each by its operator; at the end they are gone."""
    libraries: dict[tuple[str, str], torch.library.Library] = {}

    def register(key: str, kernels: Mapping[str, Callable[..., Any]]) -> None:
        for name, kernel in kernels.items():
            namespace, _, operator = name.partition("::")
            if (namespace, key) not in libraries:
                libraries[namespace, key] = torch.library.Library(namespace, "IMPL", key)
            libraries[namespace, key].impl(operator, kernel)

    try:
        yield register
    finally:
        for opened in reversed(libraries.values()):
            opened._destroy()


def written_arguments(plan: Plan, args: Any, kwargs: Any) -> list[Any]:
    """The arguments that the schema marks as written, in its order; None where the call leaves one out."""
    return [args[position] if position < len(args) else kwargs.get(name) for position, name in plan.written]


Run = Callable[[Dispatch, Plan, tuple[Any, ...], dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Route:
    """What C++ on a Mac does with an operator where it asks for the device type.

    The virtual device's tensors carry MPS dispatch keys, but C++ ``device()`` says ``meta``. Code that
    branches on the device type therefore goes the wrong way, and only such code needs a route. Each says
    where the branch is and how that was established.
    """

    operator: str
    run: Run  # below autograd
    # In the operator's place at the AutogradMPS key, with its own arguments after the dispatch: for composite operators
    # whose pieces have derivatives of their own.
    above_autograd: Callable[..., Any] | None = None
    only_without_kernel: bool = False  # leave the operator alone in releases that register a kernel for it


def composite_route(operator: str, function: Callable[..., Any]) -> Route:
    """A route for an operator that is composite above autograd.

    ``function(dispatch, *args, **kwargs)`` is written in torch operators. In inference mode there
    is no autograd key and the call arrives at the dispatch mode instead: the same function runs there.
    """

    def run(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with dispatch:
            return function(dispatch, *args, **kwargs)

    return Route(operator, run, above_autograd=function)


def as_it_is(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As without a route: a leaf where it has a kernel or none at all, its composite kernel otherwise."""
    if plan.registered.verdict == "composite" and plan.composite_key is not None:
        with dispatch:
            return plan.func._op_dk(plan.composite_key, *args, **kwargs)
    return dispatch.leaf(plan, args, kwargs)
