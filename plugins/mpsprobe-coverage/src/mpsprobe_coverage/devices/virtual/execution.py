"""Running an operator without data: what comes out has a spec, and sometimes a real small value.

Specs come from PyTorch's own meta kernels (or a reference of ours for operators that only MPS has),
run once for each distinct combination of input specs and arguments and remembered: a meta kernel
costs 100 to 800 µs, and a transformer repeats a layer dozens of times.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch

from mpsprobe_coverage.devices.virtual.tensor import (
    VirtualTensor,
    forget,
    known_values,
    layouts_seen,
    reshape_in_place,
    virtual_tensor,
    without_data,
)
from mpsprobe_coverage.devices.virtual.without_data import accepting_numbers, left_behind
from mpsprobe_coverage.knowledge.calls.spec import CPU, TensorSpec, leaves, spec_of, tensors_in
from mpsprobe_coverage.recording.dispatch import Plan, written_arguments

# A long program makes ever new calls: what is remembered is given up where its keys have as many parts.
PARTS_KEPT = 2**18
UNINITIALISED = frozenset(["aten::empty.memory_format", "aten::empty_strided", "aten::empty_permuted"])


class Outcome:
    """What a call leaves behind: specs of its outputs, and new specs of arguments that it reshaped."""

    __slots__ = ("__weakref__", "cost", "flat", "outputs", "refused", "reshaped")

    def __init__(
        self, outputs: Any, reshaped: tuple[tuple[int, TensorSpec], ...], refused: Exception | None = None
    ) -> None:
        self.outputs = outputs
        self.refused = refused  # what PyTorch raises for the call on every device
        self.reshaped = reshaped
        self.flat = tuple(leaf for leaf in leaves(outputs) if type(leaf) is TensorSpec)
        self.cost = max((spec.shadow_cost for spec in self.flat), default=0)


Outcomes = dict[tuple[Any, ...], Outcome]


class Execution:
    """Runs operators on virtual tensors."""

    def __init__(self, shadow_limit: int, outcomes: Outcomes) -> None:
        self.shadow_limit = shadow_limit  # the largest real value kept, in elements
        self._outcomes = outcomes  # they hold for every release, so several devices may share them
        self._parts = 0

    def run(self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[TensorSpec], Outcome]:
        """Run a leaf. Returns its result, the specs of its tensor arguments, and the outcome."""
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
            return _virtual(outcome.outputs, shadow, base if type(base) is VirtualTensor else None)
        written = written_arguments(plan, args, kwargs)
        for index, spec in outcome.reshaped:
            if type(written[index]) is VirtualTensor:
                reshape_in_place(written[index], spec)
        if plan.takes_over and len(args) > 1 and type(args[1]) is type(args[0]) is VirtualTensor:
            args[0].memory = args[1].memory
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
            return self._worked_out(plan, args, kwargs)
        lookup = ("any number", *(None if type(part) is float else part for part in key))
        known = self._outcomes.get(lookup)
        if known is None:
            known = self._worked_out(plan, args, kwargs)
            self._remember(lookup, known)
        return Outcome(known.outputs, known.reshaped, known.refused)

    @staticmethod
    def _worked_out(plan: Plan, args: Any, kwargs: Any) -> Outcome:
        left = left_behind(plan, args, kwargs)
        reshaped = []
        for index, tensor in enumerate(written_arguments(plan, args, kwargs)):
            after = left.after.get(id(tensor))
            if after is not None and after is not spec_of(tensor):
                reshaped.append((index, after))
        return Outcome(left.outputs, tuple(reshaped), left.refused)

    def _shadow(self, plan: Plan, args: Any, kwargs: Any, outcome: Outcome) -> Any:
        """The real result, when every tensor argument has a real value and the result is small."""
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


def _virtual(outputs: Any, shadow: Any, base: VirtualTensor | None = None) -> Any:
    if type(outputs) is TensorSpec:
        return virtual_tensor(outputs, shadow, base=base)
    if isinstance(outputs, (tuple, list)):
        shadows = shadow if isinstance(shadow, (tuple, list)) else (None,) * len(outputs)
        return type(outputs)(_virtual(output, known, base) for output, known in zip(outputs, shadows, strict=True))
    return outputs


def _forget_written(plan: Plan, args: Any, kwargs: Any) -> None:
    for tensor in tensors_in(written_arguments(plan, args, kwargs)):
        if type(tensor) is VirtualTensor:
            forget(tensor)
