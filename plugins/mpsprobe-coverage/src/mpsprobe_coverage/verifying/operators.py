"""Each operator of a device's run, computed again on the CPU from the very inputs that it had there.

So an error is charged to the operator that makes it: those after it get its wrong result on both sides.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

import torch
from torch.utils._pytree import tree_map

from mpsprobe.schemas import NonfiniteOrigin, WrongOperator
from mpsprobe_coverage.knowledge.calls.call import Call, example
from mpsprobe_coverage.knowledge.calls.keys import operator_name
from mpsprobe_coverage.knowledge.calls.spec import dtype_name, is_contiguous, leaves, specs_in, tensors_in
from mpsprobe_coverage.recording.attribution import Attribution, Origin
from mpsprobe_coverage.recording.phases import FORWARD, phase_now
from mpsprobe_coverage.reporting.findings import site
from mpsprobe_coverage.verifying.comparing import NOISE, Wrong, all_finite, all_within, compared, tolerance_of
from mpsprobe_coverage.verifying.copying import PIECE, Copies, copied, place, to_device, widened, wider
from mpsprobe_coverage.verifying.device_operators import ELSEWHERE, NOT_COMPARED
from mpsprobe_coverage.verifying.drawing import Drawing, off_distribution
from mpsprobe_coverage.verifying.runs import ROOT

_aten = torch.ops.aten
TIMES = 3
"""How often an operator that was wrong is run on the device in all: it may be so only now and then."""
MOST_KINDS = 200
HALVES = (torch.float16, torch.bfloat16)
UNCOMPUTED = (RuntimeError, NotImplementedError, TypeError, ValueError)
"""What the CPU raises where it cannot compute a call."""
LISTS = ("aten::_foreach_", "aten::_fused_ada", "aten::_fused_sgd")
"""Operators that do the same with each tensor of their lists."""
TOGETHER = 2**28
"""Bytes of the tensors that such an operator gets at once."""
UNDECLARED = "batch_norm"
"""In the names of operators that write running statistics, and whose schema does not say so."""
Results = Callable[[], list[Any]]
UNINITIALISED = ("aten::empty", "aten::new_empty", "aten::resize", "aten::set_", "aten::_resize", "aten::is_", "prim::")
"""Their results have no values of their own."""
CHOICES = ("sort", "topk", "max", "min", "median", "mode", "kthvalue", "argsort", "argmax", "argmin", "msort", "cummax")
"""Operators that choose positions: of equal values any may be chosen."""


@dataclass(slots=True)
class Found:
    """Calls of one kind that were wrong, as the first one was."""

    report: WrongOperator
    call: Call
    inputs: Any  # copies of its arguments on the CPU, as they were before
    calls: int = 1


class Checking(Drawing):
    """Compares every operator call on ``device`` while it is open.

    Attributes:
        calls, operators: that were compared, and calls by name.
        wrong, begins: what was found, in the order in which it was.
        skipped: operators that were not compared → why.
        phase: of the last call.
        advance: called for each one.
    """

    def __init__(self, device: str, dtype: torch.dtype, attribution: Attribution) -> None:
        super().__init__(dtype, distribution=self.compare_drawn)
        self._device, self._attribution = device, attribution
        self.copies = Copies()
        self.calls, self.operators = 0, Counter[str]()
        self.wrong: dict[Any, Found] = {}
        self.begins: list[NonfiniteOrigin] = []
        self.skipped: dict[str, str] = {}
        self.phase = FORWARD
        self.advance: Callable[[], None] = lambda: None

    def computed(self, func: Any, args: Any, kwargs: Any) -> Any:
        name: str = func._schema.name
        if not self.concerns(args, kwargs) or func.is_view or name.startswith(UNINITIALISED):
            return func(*args, **kwargs)
        self.phase, origin = phase_now(), self._attribution.current()
        if name in NOT_COMPARED:
            self.skipped[name] = NOT_COMPARED[name]
            return func(*args, **kwargs)
        results = [self._checked(func, origin, part) for part in _parts(func, (args, kwargs))]
        return results[0] if len(results) == 1 else [result for part in results for result in part or ()] or None

    def concerns(self, args: Any, kwargs: Any) -> bool:
        """Whether a call is one on the device."""
        if any(tensor.device.type == self._device for tensor in tensors_in((args, kwargs))):
            return True
        return (asked := kwargs.get("device")) is not None and torch.device(asked).type == self._device

    def _checked(self, func: Any, origin: Origin, given: Any) -> Any:
        # What it writes cannot be looked at once more afterwards, and not every write is counted
        written = _written(func, given)
        for one in written:
            self.copies.drop(place(one))
        kept = {id(tensor): to_device(tensor, "cpu") for tensor in written}

        def inputs(copy: Callable[[torch.Tensor], torch.Tensor]) -> Any:
            """Copies of the arguments, as they were before."""
            return copied(given, "cpu", lambda tensor: kept[id(tensor)] if id(tensor) in kept else copy(tensor))

        before = inputs(self.copies.of)
        result = func(*given[0], **given[1])
        self._count(func)
        if isinstance(result, (bool, int, float)):
            return result
        made, near = _results(func, given, result), []
        for piece, got in _pieces(func, before, made):
            near = _or_none(func, piece, _at_least_float32)
            if not near or not _as_near(func, got, near):
                break
        else:
            for _, one, same in _pairs(made, near):
                if id(one) not in kept:
                    self.copies.keep(one, same)
            return result
        fresh = partial(self.copies.of, fresh=True)
        before, got = inputs(fresh), copied(made, "cpu", fresh)
        try:
            exact = _computed(func, before, _wide)
        except UNCOMPUTED as error:
            self._skip(func, error)
            return result
        by_cpu = cache(partial(_or_none, func, before))
        worst = _first_wrong(func, got, exact, by_cpu, before)
        self._nonfinite(func, origin, before, got, exact, by_cpu)
        if worst is not None:
            self._add(func, origin, before, result, *worst)
        return result

    def _count(self, func: Any) -> None:
        self.calls += 1
        self.operators[operator_name(func)] += 1
        self.advance()

    def _skip(self, func: Any, error: Exception) -> None:
        self.skipped[operator_name(func)] = f"the CPU cannot compute it: {str(error).splitlines()[0][:120]}"

    def _add(self, func: Any, origin: Origin, before: Any, result: Any, number: int, one: Wrong) -> None:
        args, kwargs = before
        call = Call(func, args, kwargs, specs_in(before), specs_in(result))
        scalars = [leaf for leaf in leaves(before) if not isinstance(leaf, (torch.Tensor, float))]
        key = (func, call.inputs, self.phase, repr(scalars)[:500])
        if key in self.wrong:
            self.wrong[key].calls += 1
        if key in self.wrong or len(self.wrong) >= MOST_KINDS:
            return
        specs = (*call.outputs, *call.inputs)
        dtype = specs[min(number, len(specs) - 1)].dtype if specs else torch.float32
        report = WrongOperator(
            **self._place(call, origin),
            **tolerance_of(func._schema.name, dtype)._asdict(),
            **one.fields(),
            dtype=dtype_name(dtype),
            result=number,
            calls=1,
            seen=self.operators[operator_name(func)],
            times=1 + sum(self.is_wrong(func, before) for _ in range(TIMES - 1)),
            of_times=TIMES,
        )
        self.wrong[key] = Found(report, call, before)

    def _place(self, call: Call, origin: Origin) -> dict[str, Any]:
        return {
            "operator": operator_name(call.func),
            "phase": self.phase,
            "module": None if origin.module is None else origin.module or ROOT,
            "call_site": None if origin.file is None else site(origin.file, origin.line),
            "inputs": [repr(spec) for spec in call.inputs],
            "layouts": [f"{spec!r} strides {list(spec.stride)}" for spec in call.inputs if not is_contiguous(spec)],
            "example": example(call),
        }

    def is_wrong(self, func: Any, before: Any) -> bool:
        """Run it on the device once more, with the same inputs."""
        args, kwargs = given = copied(before, self._device)
        got = copied(_results(func, given, func(*args, **kwargs)), "cpu")
        return (
            _first_wrong(func, got, _computed(func, before, _wide), partial(_or_none, func, before), before) is not None
        )

    def _nonfinite(self, func: Any, origin: Origin, before: Any, got: Any, exact: Any, by_cpu: Results) -> None:
        strange = [tensor for tensor in got if not all_finite(tensor)]
        if not strange or not all(map(all_finite, tensors_in(before))):
            return
        nan = any(bool(tensor.isnan().any()) for tensor in strange)
        if not nan and not all(map(all_finite, exact)):
            return  # infinite, as it should be
        args, kwargs = before
        place = self._place(Call(func, args, kwargs, specs_in(before), specs_in(got)), origin)
        known = {(origin.operator, origin.phase, origin.module, origin.call_site) for origin in self.begins}
        if (place["operator"], self.phase, place["module"], place["call_site"]) not in known:
            cpu_too = not all(map(all_finite, by_cpu()))
            self.begins.append(NonfiniteOrigin(what="NaN" if nan else "infinity", cpu_too=cpu_too, **place))

    def compare_drawn(self, func: Any, own: Any, given: Any) -> None:
        """Numbers that the device drew: by their distribution; what dropout makes of them exactly."""
        self.phase = phase_now()
        origin, before = self._attribution.current(), copied(given, "cpu")
        self._count(func)
        args, kwargs = before
        worst = None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.operators[operator_name(func)])
            if func is _aten.native_dropout.default:
                keep = 1.0 - args[1]
                got, kept = own[0].cpu(), own[1].cpu()
                exact = widened(args[0]) * kept / keep
                worst = compared(got, exact, lambda: None, tolerance_of("aten::mul", got.dtype))
                own, drawn = kept, torch.empty(kept.shape).bernoulli_(keep)
            else:
                try:
                    drawn = func(*args, **kwargs)
                except UNCOMPUTED as error:
                    self._skip(func, error)
                    return
        worst = worst or off_distribution(own, drawn)
        if worst is not None:
            self._add(func, origin, before, own, 0, worst)


def _or_none(func: Any, before: Any, change: Any = None) -> list[Any]:
    """Nothing where the CPU has no kernel for the dtype: float64 alone judges."""
    try:
        return _computed(func, before, change)
    except UNCOMPUTED:
        return []


def _computed(func: Any, before: Any, change: Any = None) -> list[Any]:
    """Its results on the CPU, and what it wrote; of inputs that ``change`` made, if there is one."""
    args, kwargs = given = before if change is None else tree_map(change, before)
    if written := set(map(id, _written(func, given))):
        args, kwargs = copied(
            given, "cpu", lambda tensor: to_device(tensor, "cpu") if id(tensor) in written else tensor
        )
    instead = ELSEWHERE.get(func._schema.name)
    result = func(*args, **kwargs) if instead is None else instead(*args, **kwargs)
    return _results(func, (args, kwargs), result)


def _wide(leaf: Any) -> Any:
    """In float64."""
    return widened(leaf) if isinstance(leaf, torch.Tensor) else wider(leaf)


def _at_least_float32(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.float() if leaf.dtype in HALVES else leaf
    return torch.float32 if isinstance(leaf, torch.dtype) and leaf in HALVES else leaf


def rounded(leaf: Any) -> Any:
    """A float as float64, half a unit of its last place up or down, in turns that no sum is in step with."""
    if not (isinstance(leaf, torch.Tensor) and leaf.is_floating_point()):
        return _wide(leaf)
    turns = torch.arange(leaf.numel()).mul_(2654435761).bitwise_right_shift_(13).bitwise_and_(1).mul_(2).sub_(1)
    return widened(leaf).mul_(1 + turns.reshape(leaf.shape) * (torch.finfo(leaf.dtype).eps / 2))


def magnitudes(leaf: Any) -> Any:
    """In float64, without signs."""
    return _wide(leaf.abs() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf)


def _parts(func: Any, given: Any) -> list[Any]:
    """The arguments of a call, in parts of ``TOGETHER`` bytes where it does the same with each tensor of its lists.

    An optimizer's update of a whole model would need the model four times.
    """
    args, kwargs = given
    if not func._schema.name.startswith(LISTS) or sum(tensor.nbytes for tensor in tensors_in(given)) <= TOGETHER:
        return [given]
    size = len(args[0])
    lists = [one for one in (*args, *kwargs.values()) if isinstance(one, (list, tuple)) and len(one) == size]
    ends, held = [0], 0
    for number, needed in enumerate(
        sum(tensor.nbytes for tensor in tensors_in(row)) for row in zip(*lists, strict=True)
    ):
        if held and held + needed > TOGETHER:
            ends.append(number)
            held = 0
        held += needed

    def part(start: int, end: int) -> Any:
        def cut(one: Any) -> Any:
            return one[start:end] if isinstance(one, (list, tuple)) and len(one) == size else one

        return tuple(map(cut, args)), {name: cut(value) for name, value in kwargs.items()}

    return [part(*ends) for ends in pairwise([*ends, size])]


def _pieces(func: Any, before: Any, made: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """The inputs and results of a call; of one large tensor's update in pieces, as one element has none of another."""
    tensors = tensors_in((before, made))
    size = max((tensor.numel() for tensor in tensors), default=0)
    large = [tensor for tensor in tensors if tensor.numel() == size]
    alone = func._schema.name.startswith(LISTS) and sum(tensor.nbytes for tensor in tensors_in(before)) > TOGETHER
    if not alone or len(tensors_in(made)) == 1 or not all(tensor.is_contiguous() for tensor in large):
        yield before, made
        return
    for start in range(0, size, 4 * PIECE):
        pieces = {id(tensor): tensor.view(-1)[start : start + 4 * PIECE] for tensor in large}
        yield tree_map(lambda leaf, pieces=pieces: pieces.get(id(leaf), leaf), (before, made))


def _written(func: Any, given: Any) -> list[torch.Tensor]:
    """The tensors that a call writes, and those that share memory with them."""
    written = tensors_in(given if UNDECLARED in func._schema.name else _declared(func, given))
    places = set(map(place, written))
    return [tensor for tensor in tensors_in(given) if place(tensor) in places] if places else []


def _declared(func: Any, given: Any) -> list[Any]:
    """The arguments that a call writes, by its schema."""
    args, kwargs = given
    return [args[n] if n < len(args) else kwargs.get(name) for n, name in _writes(func)[0]]


@cache
def _writes(func: Any) -> tuple[list[tuple[int, str]], bool]:
    """Position and name of the arguments that an operator writes, and whether it returns them."""
    of, returned = func._schema.arguments, func._schema.returns
    writes = [
        (n, argument.name)
        for n, argument in enumerate(of)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return writes, any(argument.alias_info is not None and argument.alias_info.is_write for argument in returned)


def _results(func: Any, given: Any, result: Any) -> list[Any]:
    """The tensors that a call returns, each ``None`` too, then those that it writes and does not return."""
    return leaves(result) + ([] if _writes(func)[1] else tensors_in(_declared(func, given)))


def _pairs(made: list[Any], right: list[Any]) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """The results that are tensors on both sides, with their positions."""
    for number, (one, other) in enumerate(zip(made, right, strict=False)):
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            yield number, one, other


def _as_near(func: Any, got: list[Any], near: list[Any]) -> bool:
    """Whether nothing of ``got`` can be wrong, as it is so near to what the CPU computed in float32.

    What is wrong is beyond tolerance of float64 and ``NOISE`` times as far as the CPU. So it is more than
    ``1 - 1 / NOISE`` of the tolerance away from the CPU, wherever float64 lies.
    """
    for _, one, right in _pairs(got, near):
        if one.layout is not torch.strided or one.shape != right.shape:
            return False
        allowed = tolerance_of(func._schema.name, one.dtype)
        if one.is_floating_point() or one.is_complex():
            near_enough = all_within(one, right, allowed, 1 - 1 / NOISE)
        else:
            near_enough = torch.equal(to_device(one, "cpu"), right.to(one.dtype))
        if not near_enough:
            return False
    return True


def _first_wrong(func: Any, got: list[Any], exact: list[Any], by_cpu: Results, before: Any) -> tuple[int, Wrong] | None:
    """The first wrong result and its position."""
    choice = func._schema.name.partition("::")[2].strip("_") in CHOICES
    for number, one, judge in _pairs(got, exact):
        if number and one.shape != judge.shape:
            continue  # what has other sizes after the first result is a kernel's own workspace
        if one.layout is not torch.strided:
            one, judge = one.to_dense(), judge.to_dense()
        if choice and one.dtype is torch.int64 and (number or _same_values(func, before, one, judge)):
            continue
        same = partial(_nth, by_cpu, number)
        unsure = partial(_unsure, func, before, judge, number)
        wrong = compared(one, judge, same, tolerance_of(func._schema.name, one.dtype), unsure)
        if wrong is not None:
            return number, wrong
    return None


def _unsure(func: Any, before: Any, exact: torch.Tensor, number: int) -> list[torch.Tensor]:
    near = _nth(partial(_or_none, func, before, rounded), number)
    sums = None if torch.Tag.pointwise in func.tags else _nth(partial(_or_none, func, before, magnitudes), number)
    return off_by_rounding(exact, near, sums, max((tensor.numel() for tensor in tensors_in(before)), default=1))


def off_by_rounding(
    exact: torch.Tensor, near: torch.Tensor | None, sums: torch.Tensor | None, count: int
) -> list[torch.Tensor]:
    """How far from ``exact`` any kernel may be: by its inputs, rounded once more, and by each sum on the way.

    A sum of ``n`` numbers that is made as a tree is off by at most ``log2(n)`` units of rounding of the sum of their
    magnitudes (Higham, The accuracy of floating point summation, 1993). That sum is what the operator makes of its
    inputs' magnitudes: then nothing cancels. Kernels sum half precision in float32.

    Args:
        near: what the inputs, ``rounded``, give; ``sums``: what their ``magnitudes`` give; ``None``: not known.
        count: the elements of the largest input.
    """
    bounds = [] if near is None else [NOISE * (near - exact).abs().max()]
    unit = torch.finfo(torch.float32).eps / 2
    bounds += [] if sums is None else [sums.abs() * (unit * math.log2(max(2, count)))]
    return [bound for bound in bounds if bound.shape in ((), exact.shape)]


def _nth(results: Results, number: int) -> torch.Tensor | None:
    return found[number] if number < len(found := results()) else None


def _same_values(func: Any, before: Any, got: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether ``argmax`` and its like chose positions of equal values."""
    args, kwargs = before
    x, dim = args[0], (args[1] if len(args) > 1 else kwargs.get("dim"))
    if not isinstance(dim, int) or x.dim() == 0:
        x, dim, got, exact = x.flatten(), 0, got.flatten(), exact.flatten()
    if got.dim() < x.dim():
        got, exact = got.unsqueeze(dim), exact.unsqueeze(dim)
    inside = bool((got >= 0).all() and (got < x.shape[dim]).all())
    return inside and torch.equal(x.gather(dim, got), x.gather(dim, exact))
