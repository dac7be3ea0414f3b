"""Calls whose result depends on values: the program asks a number, a truth, or how many there are.

Where every value is known (shadows), the answer is real. Where it is not, the run goes on with an
assumption that is written into the report: a check over all elements (``all``) holds, any other truth
value is False (what a run with the other answer shows is in ``recording/branches.py``), a number is 1, and an operator
whose output size depends on values gets ones (so that ``nonzero`` finds everything: every expert of
a mixture is used). How many there are of what a program counts is in ``planning.py``. For the range of a peak, a run
may ask for the fewest or the most that the operators of ``BOUNDED`` can find.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any, Literal

import torch

from mpsprobe_coverage.devices.virtual.execution import (
    MATERIALISE_LIMIT,
    Sizes,
    in_another_dtype,
    on_smaller,
    specs_of,
    unit,
)
from mpsprobe_coverage.devices.virtual.tensor import (
    VirtualTensor,
    known_values,
    mapped,
    reshape_in_place,
    virtual_tensor,
    with_tensors,
    without_data,
)
from mpsprobe_coverage.knowledge.calls.spec import CPU, TensorSpec, interned, leaves, spec_of, tensors_in
from mpsprobe_coverage.recording.dispatch import Dispatch, Plan, written_arguments

ONES_ASSUMPTION = "ones: everything is found or selected"
# How many an operator finds among values that are not known: as many as among ones, or an end of what is possible.
Found = Literal["ones", "fewest", "most"]
# Of ones they find a single value, and most where no two are equal.
UNIQUE = frozenset(
    f"aten::{name}" for name in ("_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive")
)
# Operators, without overload, that find no more than they are given. There is no most of what others make: counts and
# class numbers (`repeat_interleave`, `bincount`, `one_hot`) can be any number.
BOUNDED = UNIQUE | {"aten::nonzero", "aten::argwhere", "aten::masked_select", "aten::index", "aten::_unsafe_index"}
# What their first argument holds does not matter for the size of the result.
_DECIDED_BY_SECOND = frozenset({"aten::index.Tensor", "aten::_unsafe_index.Tensor", "aten::masked_select"})
Values = Callable[[tuple[int, ...], torch.dtype], torch.Tensor]


class DataDependent:
    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self.found: Found = "ones"  # how many are found where values are not known

    def call(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        """Run an operator tagged ``data_dependent_output`` or ``dynamic_output_shape``."""
        dispatch = self._dispatch
        if not _depends_on_values(plan, args):
            return dispatch.leaf(plan, args, kwargs)
        tensors = tensors_in((args, kwargs))
        deciding = args[1] if plan.name in _DECIDED_BY_SECOND else (args, kwargs)
        unknown = [tensor for tensor in tensors_in(deciding) if known_values_of(tensor) is None]
        scalar = torch.Tag.data_dependent_output in plan.func.tags
        if unknown and not scalar:
            dispatch.assumed(plan.name, ONES_ASSUMPTION)
        if unknown and scalar:
            result: Any = dispatch.guessed(plan.name, assumed_scalar(plan.func, tensors[0]))
        elif unknown and sum(spec_of(tensor).numel for tensor in tensors) > MATERIALISE_LIMIT:
            result = self._of_many(plan, args, kwargs)
        elif not unknown and (selected := _selected(plan, args)) is not None:
            result = selected.empty()
        else:
            result = _on_the_cpu(plan.func, *with_tensors(partial(self._real, plan.name), (args, kwargs), CPU))
        outputs = tuple(spec for spec in leaves(specs_of(result)) if type(spec) is TensorSpec)
        dispatch.record(plan, args, kwargs, tuple(map(spec_of, tensors)), outputs)
        keep = all(known_values_of(t) is not None for t in tensors)
        virtual = mapped(lambda v: self._back(v, keep), result)
        for one in tensors_in(virtual) if unknown and self.found == "most" else ():
            one.is_most = True  # type: ignore[attr-defined]
        return _written_into(plan, args, kwargs, virtual) if plan.mutable else virtual

    def _of_many(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        """The specs of what is found in real values, from fewer of them: it may take as much memory as the model."""
        values = self._values(plan.name)

        def run(small_args: Any, small_kwargs: Any, sizes: Sizes) -> Any:
            ones = with_tensors(lambda t: values(sizes(t).shape, t.dtype), (small_args, small_kwargs), CPU)
            return specs_of(_on_the_cpu(plan.func, *ones))

        return on_smaller(run, args, kwargs)

    def _values(self, name: str) -> Values:
        operator = name.partition(".")[0]
        if operator in BOUNDED and self.found == "fewest":
            return partial(_same, 0)
        return _different if operator in UNIQUE and self.found == "most" else partial(_same, 1)

    def _real(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """The values of an argument, or what they are taken for."""
        known, spec = known_values_of(tensor), spec_of(tensor)
        if known is not None:
            return known
        if name.startswith("aten::linalg_"):
            return unit(spec)
        if tensor.layout is not torch.strided:
            return spec.filled(1)
        return self._values(name)(spec.shape, spec.dtype)

    def _back(self, value: Any, keep: bool) -> Any:
        if type(value) is TensorSpec:
            return virtual_tensor(value)
        if not isinstance(value, torch.Tensor):
            return value
        small = value.layout is torch.strided and spec_of(value).shadow_cost <= self._dispatch.shadow_limit
        return virtual_tensor(spec_of(value), value if keep and small else None)


def _same(number: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """One element, seen as many: nothing is allocated for values that are not known."""
    return torch.full((), number, dtype=dtype, device=CPU).expand(shape)


def _different(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(prod(shape), device=CPU).to(dtype).reshape(shape)


def _selected(plan: Plan, args: Any) -> TensorSpec | None:
    """What one known mask selects of a large tensor whose values are not known; ``None`` for any other call."""
    if plan.name not in _DECIDED_BY_SECOND:
        return None
    source, masks = args[0], [args[1]] if isinstance(args[1], torch.Tensor) else args[1]
    spec = spec_of(source)
    if spec.numel <= MATERIALISE_LIMIT or known_values_of(source) is not None:
        return None
    mask = known_values_of(masks[0]) if len(masks) == 1 else None
    if mask is None:
        return None
    if plan.name == "aten::masked_select":
        whole = prod(torch.broadcast_shapes(spec.shape, mask.shape))
        count = int(mask.count_nonzero()) * whole // max(mask.numel(), 1)
        return interned((count,), (1,), spec.dtype)
    if tuple(mask.shape) != spec.shape[: mask.dim()]:
        return None
    shape = (int(mask.count_nonzero()), *spec.shape[mask.dim() :])
    return interned(shape, tuple(prod(shape[place + 1 :]) for place in range(len(shape))), spec.dtype)


def _on_the_cpu(func: Any, args: Any, kwargs: Any) -> Any:
    """``func`` on real tensors, in another dtype where the CPU kernel does not take theirs."""
    try:
        return func(*args, **kwargs)
    except (RuntimeError, TypeError):
        ran = in_another_dtype(func, args, kwargs)
        if ran is None:
            raise
        return with_tensors(lambda tensor: tensor.to(ran.original(tensor.dtype)), ran.result)


def _written_into(plan: Plan, args: Any, kwargs: Any, result: Any) -> Any:
    """``result`` as the arguments that the operator writes (``out=``) and returns, in their new sizes."""
    written = written_arguments(plan, args, kwargs)
    several = isinstance(result, (tuple, list))
    results = list(result) if several else [result]
    for position, source in enumerate(plan.returned):
        target, value = None if source is None else written[source], results[position]
        if type(target) is VirtualTensor and type(value) is VirtualTensor:
            reshape_in_place(target, value.spec)
            target.shadow = value.shadow
            results[position] = target
    return tuple(results) if several else results[0]


def _depends_on_values(plan: Plan, args: Any) -> bool:
    """Indexing depends on values only where an index is a mask."""
    if not plan.name.endswith("index.Tensor"):
        return True
    return any(isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1])


def assumed_scalar(func: Any, tensor: torch.Tensor) -> Any:
    """The number or truth value that ``func`` is taken to return for ``tensor``, whose values are not known."""
    dtype, returned = spec_of(tensor).dtype, func._schema.returns[0].type.kind()
    if returned == "BoolType" or (returned == "NumberType" and dtype is torch.bool):
        return getattr(tensor, "assumed_truth", False)
    count = getattr(tensor, "assumed_count", None)
    if count is not None:
        return int(count)
    return 1.0 if dtype.is_floating_point else complex(1.0) if dtype.is_complex else 1


def filled(spec: TensorSpec, count: Fraction | int) -> torch.Tensor:
    """A real tensor of which each element is ``count``; where that is no whole number, their sum is right."""
    if count == int(count):
        return spec.filled(int(count))
    whole = torch.arange(spec.numel + 1) * count.numerator // count.denominator
    return spec.filled(0).copy_(whole.diff().reshape(spec.shape))


def known_values_of(tensor: Any) -> torch.Tensor | None:
    if type(tensor) is VirtualTensor:
        return known_values(tensor)
    return None if tensor.is_meta or type(tensor) in without_data else tensor
