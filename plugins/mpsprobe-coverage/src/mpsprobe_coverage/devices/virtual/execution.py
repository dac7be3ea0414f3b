"""Running an operator without data: what comes out has a spec, and sometimes a real small value.

The meta kernel is asked once for each distinct combination of input specs and arguments, and the answer is remembered:
it costs 100 to 800 µs, and a transformer repeats a layer dozens of times. For operators that only MPS has a reference
of ours is asked. Where they cannot say, these are tried:

1. the CPU kernel, on zeros, where they are few;
2. either of them on tensors of the same rank with small sizes (``on_smaller``), where they are many;
3. both in another dtype (``in_another_dtype``), where they lack the code for the dtype;
4. what the operator writes and returns, as it was before.

A message that both kernels have of their own, about a dtype, holds on every device. It is kept: that is the verdict.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import prod
from typing import Any

import torch

from mpsprobe_coverage.devices.virtual.tensor import (
    VirtualTensor,
    forget,
    known_values,
    layouts_seen,
    mapped,
    plain_tensor,
    reshape_in_place,
    take_over,
    virtual_tensor,
    with_tensors,
    without_data,
)
from mpsprobe_coverage.knowledge.calls.spec import CPU, META, TensorSpec, interned, leaves, spec_of, tensors_in
from mpsprobe_coverage.recording.dispatch import Plan, written_arguments

# A long program makes ever new calls: what is remembered is given up where its keys have as many parts.
PARTS_KEPT = 2**18
_AS_STRIDED = torch.ops.aten.as_strided.default
_CONJ = torch.ops.aten._conj.default
UNINITIALISED = frozenset(["aten::empty.memory_format", "aten::empty_strided", "aten::empty_permuted"])
MATERIALISE_LIMIT = 2**24  # elements: how much to allocate, once, to run a kernel that has no meta version
_OF_OTHERS = 2**14
"""Elements from which on another library's kernel is tried on fewer first: it may compare each with each (``nms``)."""
# `DispatchStub.cpp` says the second of a device that no function was set for: meta, for one.
_NO_CODE = re.compile(r"\" not implemented for '|DispatchStub: (unsupported device type|missing kernel)")
_STAND_INS = (torch.float32, torch.complex64, torch.int64, torch.bool)
_SMALL = 16
MOST_FACTORS = 4
"""Large sizes of which a size of a result is the product: all elements of a batch of images, say."""
_PRIMES = ((17, 19, 23, 29, 31), (37, 41, 47, 59, 67), (43, 53, 61, 71, 73))

Sizes = Callable[[torch.Tensor], TensorSpec]


class Outcome:
    """What a call leaves behind: its result with specs for tensors, and new specs of written arguments, by number."""

    __slots__ = ("__weakref__", "cost", "flat", "offsets", "outputs", "refused", "reshaped")

    def __init__(
        self,
        outputs: Any,
        reshaped: tuple[tuple[int, TensorSpec], ...],
        refused: Exception | None = None,
        offsets: tuple[int, ...] = (),
    ) -> None:
        self.outputs = outputs
        self.offsets = offsets  # of views, from the beginning of their base; empty where all begin there
        self.refused = refused  # what PyTorch raises for it on every device; the specs are then those of another dtype
        self.reshaped = reshaped
        self.flat = tuple(leaf for leaf in leaves(outputs) if type(leaf) is TensorSpec)
        self.cost = max((spec.shadow_cost for spec in self.flat), default=0)


Outcomes = dict[tuple[Any, ...], Outcome]


class Execution:
    def __init__(self, shadow_limit: int, outcomes: Outcomes) -> None:
        self.shadow_limit = shadow_limit  # the largest real value kept, in elements
        self._outcomes = outcomes  # they hold for every release, so several devices may share them
        self._parts = 0

    def run(self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[TensorSpec], Outcome]:
        key: list[Any] = [plan.func]
        specs: list[TensorSpec] = []
        shadows = 0
        for value in args:
            shadows += _collect(value, key, specs)
        for name, value in kwargs.items():
            key.append(name)
            shadows += _collect(value, key, specs)
        if layouts_seen:  # sparse kernels keep what their backward needs only where a gradient is wanted
            key.append(tuple(tensor.requires_grad for tensor in tensors_in((args, kwargs))))
        lookup = tuple(key)
        try:
            outcome = self._outcomes.get(lookup)
        except TypeError:  # an argument that cannot be hashed: not remembered
            outcome = None
        if outcome is None:
            outcome = self._find_outcome(plan, args, kwargs, key)
            with suppress(TypeError):
                self._remember(lookup, outcome)
        shadow = None
        if shadows == len(specs):
            shadow = self._shadow(plan, args, kwargs, outcome)
        elif plan.mutable:
            _forget_written(plan, args, kwargs)
        return self._result(plan, args, kwargs, outcome, shadow), specs, outcome

    def _result(self, plan: Plan, args: Any, kwargs: Any, outcome: Outcome, shadow: Any) -> Any:
        if not plan.mutable:
            base = None if plan.base is None or not args else args[plan.base]
            if type(base) is not VirtualTensor:
                return _virtual(outcome.outputs, shadow)
            offsets = outcome.offsets
            if plan.func is _AS_STRIDED:  # which counts from the beginning of the storage
                given = args[3] if len(args) > 3 else kwargs.get("storage_offset")
                offsets = () if given is None else (given - base.offset,)
            view = _virtual(outcome.outputs, shadow, base, iter(offsets) if offsets else None)
            if plan.func is _CONJ:
                view.conjugated = not base.conjugated
            return view
        written = written_arguments(plan, args, kwargs)
        for index, spec in outcome.reshaped:
            if type(written[index]) is VirtualTensor:
                reshape_in_place(written[index], spec)
        if plan.takes_over and len(args) > 1 and type(args[1]) is type(args[0]) is VirtualTensor:
            take_over(args[0], args[1])
        if not plan.returned:
            return None
        outputs = outcome.outputs if len(plan.returned) > 1 else (outcome.outputs,)
        results = []
        for position, source in enumerate(plan.returned):
            fresh_shadow = shadow[position] if isinstance(shadow, (tuple, list)) else shadow
            results.append(written[source] if source is not None else _virtual(outputs[position], fresh_shadow))
        return results[0] if len(results) == 1 else tuple(results)

    def _remember(self, lookup: tuple[Any, ...], outcome: Outcome) -> None:
        self._parts += len(lookup)
        if self._parts > PARTS_KEPT:
            self._outcomes.clear()
            self._parts = len(lookup)
        self._outcomes[lookup] = outcome

    def _find_outcome(self, plan: Plan, args: Any, kwargs: Any, key: list[Any]) -> Outcome:
        if not plan.arithmetic or float not in map(type, key):
            return left_behind(plan, args, kwargs)
        lookup = ("any number", *(None if type(part) is float else part for part in key))
        outcome = self._outcomes.get(lookup)
        if outcome is None:
            outcome = left_behind(plan, args, kwargs)
            self._remember(lookup, outcome)
        return Outcome(outcome.outputs, outcome.reshaped, outcome.refused, outcome.offsets)

    def _shadow(self, plan: Plan, args: Any, kwargs: Any, outcome: Outcome) -> Any:
        if outcome.cost > self.shadow_limit:
            _forget_written(plan, args, kwargs)
            return None
        real_args = [_real(value) for value in args]
        real_kwargs = {name: _real(value) for name, value in kwargs.items()} if kwargs else kwargs
        try:
            result = accepting_numbers(plan.run, plan, real_args, real_kwargs)
        except Exception:  # noqa: BLE001 - any refusal of the CPU kernel (a dtype) only costs the known value
            _forget_written(plan, args, kwargs)
            return None
        # Zeros of forward-mode autograd have no memory, and kernels below the dispatch mode do not expect that.
        for tensor in (result,) if type(result) is torch.Tensor else tensors_in(result):
            if tensor.layout is not torch.strided or tensor._is_zerotensor():
                return None
        # Whatever lay in fresh memory must not decide what runs.
        return result.zero_() if plan.name in UNINITIALISED else result


def _real(value: Any) -> Any:
    kind = type(value)
    if kind is VirtualTensor:
        return value.shadow
    if kind is list or kind is tuple:
        return [_real(item) for item in value]
    return CPU if kind is torch.device else value


def _collect(value: Any, key: list[Any], specs: list[TensorSpec]) -> int:
    """Append what makes ``value`` distinct to ``key``; returns how many tensors with known values it holds."""
    kind = type(value)
    if kind is VirtualTensor:
        spec = value.spec
        key.append(spec)
        specs.append(spec)
        return known_values(value) is not None
    if kind is list or kind is tuple:
        known = 0
        key.append(len(value))
        for item in value:
            known += _collect(item, key, specs)
        return known
    if isinstance(value, torch.Tensor):
        spec = spec_of(value)
        key.append((spec, "plain"))
        specs.append(spec)
        return value.device.type == "cpu" and kind not in without_data
    key.append(kind)  # 1, 1.0 and True are equal as keys and differ as arguments
    key.append(value)
    return 0


def _virtual(outputs: Any, shadow: Any, base: VirtualTensor | None = None, offsets: Iterator[int] | None = None) -> Any:
    if type(outputs) is TensorSpec:
        return virtual_tensor(outputs, shadow, base=base, offset=0 if offsets is None else next(offsets))
    if isinstance(outputs, (tuple, list)):
        shadows = shadow if isinstance(shadow, (tuple, list)) else (None,) * len(outputs)
        both = zip(outputs, shadows, strict=True)
        return type(outputs)(_virtual(output, known, base, offsets) for output, known in both)
    return outputs


def _forget_written(plan: Plan, args: Any, kwargs: Any) -> None:
    for tensor in tensors_in(written_arguments(plan, args, kwargs)):
        if type(tensor) is VirtualTensor:
            forget(tensor)


def left_behind(plan: Plan, args: Any, kwargs: Any) -> Outcome:
    try:
        if layouts_seen:
            specs = [spec_of(tensor) for tensor in tensors_in((args, kwargs))]
            small = sum(spec.stored for spec in specs) <= MATERIALISE_LIMIT
            if small and any(spec.layout is not torch.strided for spec in specs):
                # Meta kernels do not say how many are specified.
                raise NotImplementedError(f"{plan.func} is run on the CPU for sparse tensors")
        return _on_meta(plan, args, kwargs)
    except Exception as error:  # noqa: BLE001 - kernels in Python raise what they like
        return _another_way(plan, args, kwargs, error)


def _another_way(plan: Plan, args: Any, kwargs: Any, error: Exception) -> Outcome:
    specs = [spec_of(t) for t in tensors_in((args, kwargs))]
    stored = sum(spec.stored for spec in specs)
    if stored > _OF_OTHERS and plan.func.namespace != "aten":
        with contextlib.suppress(Exception):  # all of them may do
            return _on_smaller(plan, args, kwargs)
    if stored > MATERIALISE_LIMIT:
        if any(spec.layout is not torch.strided for spec in specs):
            return _large_sparse(plan, args, kwargs)
        try:
            return _on_smaller(plan, args, kwargs)
        except Exception:  # noqa: BLE001 - what was raised for the sizes of the call says more
            text = (
                f"{plan.func} has no meta kernel, and its inputs ({stored} elements) are too large to try it with zeros"
            )
            raise NotImplementedError(text) if isinstance(error, NotImplementedError) else error from None
    try:
        return _run(plan, args, kwargs, _zeros, CPU)
    except Exception as refused:  # noqa: BLE001 - whatever it is, it decides between the two errors
        # The last only say that there is no meta kernel: messages of the dispatcher, or ours.
        lacking = lacks_code(refused) or lacks_code(error) or isinstance(error, (NotImplementedError, KeyError))
        left = _in_another_dtype(plan, args, kwargs)
        if left is None and lacking:
            left = _as_before(plan, args, kwargs)
        if left is not None:
            left.refused = None if lacking else _bare(refused)
            return left
        raise error if not isinstance(error, NotImplementedError) else refused from None


def _bare(error: Exception) -> Exception:
    """Without what keeps frames, and their tensors, alive."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def _run(
    plan: Plan,
    args: Any,
    kwargs: Any,
    make: Callable[[torch.Tensor], torch.Tensor | None],
    device: torch.device,
    numbers: torch.device = CPU,
) -> Outcome:
    """Run the reference for ``device`` on what ``make`` makes of each tensor, which stays where it makes None."""
    inner: dict[int, torch.Tensor] = {}

    def replace(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in inner:
            made = make(tensor)
            if made is None:
                return tensor
            inner[id(tensor)] = made
        return inner[id(tensor)]

    new_args, new_kwargs = with_tensors(replace, (args, kwargs), device)
    result = accepting_numbers(plan.run, plan, new_args, new_kwargs, numbers)
    offsets = () if plan.base is None else tuple(int(view.storage_offset()) for view in tensors_in(result))
    after = {key: spec_of(tensor) for key, tensor in inner.items()}
    reshaped = _reshaped(plan, args, kwargs, after)
    return Outcome(specs_of(result), reshaped, offsets=offsets if any(offsets) else ())


def _reshaped(plan: Plan, args: Any, kwargs: Any, after: dict[int, TensorSpec]) -> tuple[tuple[int, TensorSpec], ...]:
    """Which written arguments have another spec ``after`` the call, by the ids of tensors."""
    written = [
        (number, tensor) for number, tensor in enumerate(written_arguments(plan, args, kwargs)) if id(tensor) in after
    ]
    return tuple((number, after[id(tensor)]) for number, tensor in written if after[id(tensor)] is not spec_of(tensor))


def _on_meta(plan: Plan, args: Any, kwargs: Any) -> Outcome:
    """The meta kernel; once more with all 0-dim CPU tensors on meta if it does not take them as they are.

    Kernels of TensorIterator take a 0-dim CPU tensor together with tensors of any device; a few meta kernels, being
    Python references (``copysign``), ask for one device.
    """
    try:
        return _run(plan, args, kwargs, _meta_but_scalars, META)
    except NotImplementedError:
        raise
    except RuntimeError as error:
        if "device" not in str(error):
            raise
        return _run(plan, args, kwargs, lambda t: spec_of(t).empty(), META, numbers=META)


def _meta_but_scalars(tensor: torch.Tensor) -> torch.Tensor | None:
    plain = type(tensor) is not VirtualTensor and type(tensor) not in without_data
    return None if plain and tensor.dim() == 0 else spec_of(tensor).empty()


def _zeros(tensor: torch.Tensor) -> torch.Tensor:
    return spec_of(tensor).filled(0).requires_grad_(tensor.requires_grad)


def unit(spec: TensorSpec) -> torch.Tensor:
    """Unit matrices, as zeros and ones are singular; ones where there is one dimension, or none."""
    if len(spec.shape) < 2:
        return spec.filled(1)
    return torch.eye(*spec.shape[-2:], device=CPU).to(spec.dtype).expand(spec.shape)


def _on_smaller(plan: Plan, args: Any, kwargs: Any) -> Outcome:
    """As for the sizes of the call, from two runs on small ones: of the meta kernel, else of the CPU's."""

    def run(small_args: Any, small_kwargs: Any, sizes: Callable[[torch.Tensor], TensorSpec]) -> tuple[Any, Any]:
        try:
            left = _run(plan, small_args, small_kwargs, lambda t: sizes(t).empty(), META)
        except Exception:  # noqa: BLE001 - as in `left_behind`
            left = _run(plan, small_args, small_kwargs, lambda t: sizes(t).filled(0), CPU)
        return left.outputs, left.reshaped

    return Outcome(*on_smaller(run, args, kwargs))


def _in_another_dtype(plan: Plan, args: Any, kwargs: Any) -> Outcome | None:
    inner: dict[int, torch.Tensor] = {}

    zero_args, zero_kwargs = with_tensors(lambda t: inner.setdefault(id(t), _zeros(t)), (args, kwargs), CPU)
    ran = in_another_dtype(lambda *a, **k: accepting_numbers(plan.run, plan, a, k), zero_args, zero_kwargs)
    if ran is None:
        return None
    after = {key: specs_of(ran.replaced.get(id(tensor), tensor), ran) for key, tensor in inner.items()}
    return Outcome(specs_of(ran.result, ran), _reshaped(plan, args, kwargs, after))


def _as_before(plan: Plan, args: Any, kwargs: Any) -> Outcome | None:
    """What is written has the dtype and the size that it had, where nothing else is returned."""
    written = written_arguments(plan, args, kwargs)
    outputs = [spec_of(written[source]) for source in plan.returned if source is not None]
    if not outputs or len(outputs) < len(plan.returned) or any(spec.layout is not torch.strided for spec in outputs):
        return None
    return Outcome(outputs[0] if len(outputs) == 1 else tuple(outputs), ())


def _large_sparse(plan: Plan, args: Any, kwargs: Any) -> Outcome:
    """As if everything were dense; where meta cannot do that (``sparse_mask``), on the CPU with one zero for all."""
    try:
        return _run(plan, args, kwargs, _dense_on_meta, META)
    except NotImplementedError:
        if plan.mutable:
            raise
        return _run(plan, args, kwargs, _one_zero, CPU)


def _one_zero(tensor: torch.Tensor) -> torch.Tensor:
    spec = spec_of(tensor)
    dense = spec.layout is torch.strided
    return torch.zeros((), dtype=spec.dtype, device=CPU).expand(spec.shape) if dense else spec.filled(0)


def _dense_on_meta(tensor: torch.Tensor) -> torch.Tensor:
    """Without the layout: the shape and dtype of what comes out are mostly the same."""
    spec = spec_of(tensor)
    return torch.empty_strided(spec.shape, spec.stride, dtype=spec.dtype, device=META)


def accepting_numbers(run: Callable[..., Any], plan: Plan, args: Any, kwargs: Any, device: torch.device = CPU) -> Any:
    """``run``, once more with numbers as 0-dim tensors on ``device`` if it does not take them as they are.

    C++ turns a number into such a tensor and PyTorch hands it to Python as a number again; some operators
    (``fmod``) do not accept it back.
    """
    try:
        return run(*args, **kwargs)
    except RuntimeError as error:
        if "Expected a value of type 'Tensor'" not in str(error):
            raise
    changed = list(args)
    for position in plan.tensor_positions:
        if position < len(args) and isinstance(args[position], (int, float, complex)):
            changed[position] = plain_tensor(args[position], device=device)
    return run(*changed, **kwargs)


def specs_of(result: Any, ran: Ran | None = None) -> Any:
    """``result`` with specs for its tensors; where another dtype stood for the call's, with that of the call."""
    if isinstance(result, torch.Tensor):
        spec = spec_of(result)
        if ran is None or spec.layout is not torch.strided:
            return spec
        return interned(spec.shape, spec.stride, ran.original(spec.dtype))
    if isinstance(result, (tuple, list)):
        return (tuple if isinstance(result, tuple) else list)(specs_of(item, ran) for item in result)
    return result


# Dtypes that the reference does not compute. `avg_pool2d` of uint8 or `huber_loss` of int32 have Metal kernels, and no
# code on the CPU; the meta kernel may refuse too. `"huber_cpu" not implemented for 'Int'` is the message of the macro
# that picks the code for a dtype (`aten/src/ATen/Dispatch.h`), so this kernel lacks the dtype, and other backends may
# have it. Any other message is the operator's own, and holds on every device. Whether that message is about the dtype
# at all (`mean` of whole numbers) or about the call (sizes that do not fit) is found by trying: a call that another
# dtype does not mend is a mistake of the program.
def lacks_code(error: BaseException) -> bool:
    """Whether a kernel raised only because it was not compiled for the dtype, or for the device."""
    return isinstance(error, RuntimeError) and _NO_CODE.search(str(error)) is not None


@dataclass(frozen=True, slots=True)
class Ran:
    """What came out, in a dtype that stands for the operator's own."""

    result: Any
    dtype: torch.dtype
    stand_in: torch.dtype
    replaced: dict[int, torch.Tensor]  # id of an argument → the tensor in its place

    def original(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype that the kernel would give where the stand-in gives ``dtype``; positions and counts stay whole."""
        if self.stand_in is torch.int64 and (self.dtype.is_floating_point or self.dtype.is_complex):
            return dtype
        return self.dtype if dtype is self.stand_in else dtype


def in_another_dtype(run: Callable[..., Any], args: Any, kwargs: Any) -> Ran | None:
    """``run`` with float32, or what else it takes, in place of the dtype of the first tensor argument.

    Other arguments of that dtype change with it. Where the operator does not take them so, because it wants them
    to be whole numbers (targets, indices), those after the first stay. None where it takes no other dtype either, and
    for arguments of several floating-point dtypes: that they differ may be what is refused.
    """
    tensors = tensors_in((args, kwargs))
    if not tensors or len({t.dtype for t in tensors if t.dim() and (t.is_floating_point() or t.is_complex())}) > 1:
        return None
    dtype = tensors[0].dtype
    alike = [tensor for tensor in tensors if tensor.dtype is dtype]
    for stand_in in _STAND_INS:
        if stand_in is dtype:
            continue
        for changed in (alike,) if len(alike) == 1 or dtype.is_floating_point else (alike, alike[:1]):
            try:
                return _in_dtype(run, args, kwargs, stand_in, changed)
            except Exception:  # noqa: BLE001 - the next one may do
                continue
    return None


def _in_dtype(run: Callable[..., Any], args: Any, kwargs: Any, dtype: torch.dtype, changed: list[torch.Tensor]) -> Ran:
    replaced = {id(t): torch.empty_like(t, dtype=dtype).copy_(t.real if t.is_complex() else t) for t in changed}
    new_args, new_kwargs = with_tensors(lambda t: replaced.get(id(t), t), (args, kwargs))
    return Ran(run(*new_args, **new_kwargs), changed[0].dtype, dtype, replaced)


# Tensors too large for a reference: the call runs on small ones of the same rank, and its sizes are worked out. Each
# large size becomes a prime of its own, three times with different primes. What fits two runs (`n`, `2 * n`, `n - 1`,
# `n * m`, `n * n`) and says what the third one gives is the size of the result; where nothing does, it is not known.
def on_smaller(run: Callable[[Any, Any, Sizes], Any], args: Any, kwargs: Any) -> Any:
    """What ``run(args, kwargs, sizes)`` returns, specs in any container, as if its arguments had been small.

    ``run`` is called with the tensors of the call, each of which it takes for one of the spec ``sizes(tensor)``.
    Numbers equal to a large size are small already. Raises ``NotImplementedError`` where sizes do not follow from those
    of the arguments.
    """
    large = sorted({size for tensor in tensors_in((args, kwargs)) for size in spec_of(tensor).shape if size > _SMALL})
    if not 0 < len(large) <= len(_PRIMES[0]):
        raise NotImplementedError("its sizes cannot be replaced by small ones")
    small = [dict(zip(large, primes, strict=False)) for primes in _PRIMES]
    first, second, third = (_small_run(run, args, kwargs, to) for to in small)
    if _at(small[2], first, second, small) != third:
        raise NotImplementedError("a size of the result does not follow from those of the arguments")
    return _at({size: size for size in large}, first, second, small)


def _small_run(run: Callable[[Any, Any, Sizes], Any], args: Any, kwargs: Any, to: dict[int, int]) -> Any:
    def sizes(tensor: torch.Tensor) -> TensorSpec:
        spec = spec_of(tensor)
        shape = tuple(to.get(size, size) for size in spec.shape)
        return interned(shape, _strides(shape, spec), spec.dtype)

    small_args, small_kwargs = mapped(lambda v: to.get(v, v) if type(v) is int else v, (args, kwargs))
    return run(small_args, small_kwargs, sizes)


def _strides(shape: tuple[int, ...], like: TensorSpec) -> tuple[int, ...]:
    """Dense strides in the order of those of ``like``, with zeros where those have zeros."""
    strides, step = [0] * len(shape), 1
    for position in sorted(range(len(shape)), key=lambda p: (like.stride[p], -p)):
        if like.stride[position]:
            strides[position] = step
            step *= max(shape[position], 1)
    return tuple(strides)


def _at(sizes: dict[int, int], first: Any, second: Any, small: list[dict[int, int]]) -> Any:
    """What the run gives at ``sizes``, after what it gave at the first two of ``small``."""
    if isinstance(first, TensorSpec):
        shape = tuple(_size(sizes, *pair, small) for pair in zip(first.shape, second.shape, strict=True))
        return interned(shape, _strides(shape, first), first.dtype)
    if isinstance(first, (tuple, list)):
        if len(first) != len(second):
            raise NotImplementedError("how many results there are follows from a size")
        return type(first)(_at(sizes, *pair, small) for pair in zip(first, second, strict=True))
    return _size(sizes, first, second, small) if type(first) is int else first


def _size(sizes: dict[int, int], first: int, second: int, small: list[dict[int, int]]) -> int:
    if first == second:
        return first
    lines = []
    for count in range(1, MOST_FACTORS + 1):
        for factors in combinations_with_replacement(small[0], count):
            one, other, asked = (prod(to[size] for size in factors) for to in (small[0], small[1], sizes))
            slope, rest = divmod(second - first, other - one)
            if rest == 0:
                lines.append((abs(first - slope * one), first + slope * (asked - one)))
    if not lines:
        raise NotImplementedError("a size of the result does not follow from those of the arguments")
    return min(lines)[1]
