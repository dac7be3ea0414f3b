"""Running an operator without data: what comes out has a spec, and sometimes a real small value.

Specs come from PyTorch's own meta kernels (or a reference of ours for operators that only MPS has),
run once for each distinct combination of input specs and arguments and remembered: a meta kernel
costs 100 to 800 µs, and a transformer repeats a layer dozens of times.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from mpsprobe_coverage.calls.spec import CPU, META, TensorSpec, interned, leaves, spec_of, tensors_in
from mpsprobe_coverage.device.dispatch import Plan
from mpsprobe_coverage.device.tensor import (
    VirtualTensor,
    forget,
    known_values,
    layouts_seen,
    mapped,
    reshape_in_place,
    stands_for,
    virtual_tensor,
)
from mpsprobe_coverage.device.upcast import Ran, in_float32, lacks_code

UNINITIALISED = frozenset(["aten::empty.memory_format", "aten::empty_strided", "aten::empty_permuted"])
MATERIALISE_LIMIT = 2**24  # elements: how much to allocate, once, to run a kernel that has no meta version


class Outcome:
    """What a call leaves behind: specs of its outputs, and new specs of arguments that it reshaped."""

    __slots__ = ("caution", "flat", "outputs", "reshaped")

    def __init__(self, outputs: Any, reshaped: tuple[tuple[int, TensorSpec], ...], caution: str | None = None) -> None:
        self.outputs = outputs
        self.caution = caution  # why the verdict does not say everything, if it does not
        self.reshaped = reshaped
        self.flat = tuple(leaf for leaf in leaves(outputs) if type(leaf) is TensorSpec)


Outcomes = dict[tuple[Any, ...], Outcome]


class Execution:
    """Runs operators on virtual tensors.

    Args:
        shadow_limit: the largest real value kept, in elements.
        outcomes: what is remembered. It holds for every release, so several devices may share it.
    """

    def __init__(self, shadow_limit: int, outcomes: Outcomes) -> None:
        self.shadow_limit = shadow_limit
        self._outcomes = outcomes

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
            outcome = self._find_outcome(plan, args, kwargs)
            with suppress(TypeError):
                self._outcomes[lookup] = outcome
        shadow = None
        if shadows == len(specs):
            shadow = self._shadow(plan, args, kwargs, outcome)
        elif plan.mutable:
            _forget_written(plan, args, kwargs)
        return self._result(plan, args, kwargs, outcome, shadow), specs, outcome

    def _result(self, plan: Plan, args: Any, kwargs: Any, outcome: Outcome, shadow: Any) -> Any:
        if not plan.mutable:
            return _virtual(outcome.outputs, shadow)
        written = written_arguments(plan, args, kwargs)
        for index, spec in outcome.reshaped:
            if type(written[index]) is VirtualTensor:
                reshape_in_place(written[index], spec)
        if not plan.returned:
            return None
        outputs = outcome.outputs if len(plan.returned) > 1 else (outcome.outputs,)
        results = []
        for position, source in enumerate(plan.returned):
            fresh_shadow = shadow[position] if isinstance(shadow, (tuple, list)) else shadow
            results.append(written[source] if source is not None else _virtual(outputs[position], fresh_shadow))
        return results[0] if len(results) == 1 else tuple(results)

    def _find_outcome(self, plan: Plan, args: Any, kwargs: Any) -> Outcome:
        """Run the meta kernel on fresh meta tensors of the same specs."""
        inner: dict[int, torch.Tensor] = {}

        def bare(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                if type(value) is not VirtualTensor and value.dim() == 0:
                    return value
                if id(value) not in inner:
                    inner[id(value)] = spec_of(value).empty()
                return inner[id(value)]
            return META if isinstance(value, torch.device) else value

        bare_args, bare_kwargs = mapped(bare, (args, kwargs))
        try:
            if layouts_seen and _few_of_sparse(args, kwargs):  # meta kernels do not say how many are specified
                raise NotImplementedError(f"{plan.func} is run on the CPU for sparse tensors")
            result, ran = _on_meta(plan, bare_args, bare_kwargs), None
        except (RuntimeError, TypeError, ValueError) as error:  # NotImplementedError is a RuntimeError
            inner.clear()
            result, ran = self._on_the_cpu(plan, args, kwargs, inner, error)
        reshaped = []
        for index, tensor in enumerate(written_arguments(plan, args, kwargs)):
            if isinstance(tensor, torch.Tensor) and id(tensor) in inner:
                after = _after(inner[id(tensor)], ran)
                if after is not spec_of(tensor):
                    reshaped.append((index, after))
        return Outcome(_specs(result, ran), tuple(reshaped), _caution(plan, args, kwargs))

    @staticmethod
    def _on_the_cpu(
        plan: Plan, args: Any, kwargs: Any, inner: dict[int, torch.Tensor], error: Exception
    ) -> tuple[Any, Ran | None]:
        """Ask the CPU kernel, on zeros: there is no meta kernel, or it raised ``error``.

        Where the CPU takes the call, or lacks only the code for the dtype, the call is none that every device refuses.
        """
        specs = [spec_of(t) for t in tensors_in((args, kwargs))]
        total = sum(spec.stored for spec in specs)
        if total > MATERIALISE_LIMIT:
            if any(spec.layout is not torch.strided for spec in specs):
                return _large_sparse(plan, args, kwargs), None
            if not isinstance(error, NotImplementedError):
                raise error
            raise NotImplementedError(
                f"{plan.func} has no meta kernel, and its inputs ({total} elements) are too large to try it with zeros"
            ) from error

        def zeros(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                if id(value) not in inner:
                    inner[id(value)] = spec_of(value).filled(0).requires_grad_(value.requires_grad)
                return inner[id(value)]
            return CPU if isinstance(value, torch.device) else value

        zero_args, zero_kwargs = mapped(zeros, (args, kwargs))
        run = partial(accepting_numbers, plan.run, plan)
        try:
            return run(zero_args, zero_kwargs), None
        except Exception as refused:  # noqa: BLE001 - whatever it is, it decides between the two errors
            if lacks_code(refused):
                with suppress(Exception):
                    ran = in_float32(lambda *a, **k: run(a, k), zero_args, zero_kwargs)
                    return ran.result, ran
            raise error if not isinstance(error, NotImplementedError) else refused from None

    def _shadow(self, plan: Plan, args: Any, kwargs: Any, outcome: Outcome) -> Any:
        """The real result, when every tensor argument has a real value and the result is small."""
        if any(spec.shadow_cost > self.shadow_limit for spec in outcome.flat):
            _forget_written(plan, args, kwargs)
            return None
        real_args, real_kwargs = mapped(_real, (args, kwargs))
        try:
            result = plan.run(*real_args, **real_kwargs)
        except Exception:  # noqa: BLE001 - any refusal of the CPU kernel (a dtype) only costs the known value
            _forget_written(plan, args, kwargs)
            return None
        # Zeros of forward-mode autograd have no memory, and kernels below the dispatch mode do not expect that.
        if any(tensor.layout is not torch.strided or tensor._is_zerotensor() for tensor in tensors_in(result)):
            return None
        # Whatever lay in fresh memory must not decide what runs.
        return result.zero_() if plan.name in UNINITIALISED else result


def _on_meta(plan: Plan, args: Any, kwargs: Any) -> Any:
    """The meta kernel; once more with all 0-dim CPU tensors on meta if it does not take them as they are.

    Kernels of TensorIterator take a 0-dim CPU tensor beside tensors of any device; a few meta kernels, being
    Python references (``copysign``), ask for one device.
    """
    try:
        return accepting_numbers(plan.run, plan, args, kwargs)
    except NotImplementedError:
        raise
    except RuntimeError as error:
        if "device" not in str(error):
            raise
        args, kwargs = mapped(_scalar_on_meta, (args, kwargs))
        return accepting_numbers(plan.run, plan, args, kwargs, META)


def _large_sparse(plan: Plan, args: Any, kwargs: Any) -> Any:
    """As if everything were dense; where meta cannot do that (``sparse_mask``), on the CPU with one zero for all."""
    try:
        return accepting_numbers(plan.run, plan, *mapped(_dense_on_meta, (args, kwargs)))
    except NotImplementedError:
        if plan.mutable:
            raise
        return accepting_numbers(plan.run, plan, *mapped(_one_zero, (args, kwargs)))


def _one_zero(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        spec = spec_of(value)
        dense = spec.layout is torch.strided
        return torch.zeros((), dtype=spec.dtype, device=CPU).expand(spec.shape) if dense else spec.filled(0)
    return CPU if isinstance(value, torch.device) else value


def _dense_on_meta(value: Any) -> Any:
    """Without the layout: the shape and dtype of what comes out are mostly the same."""
    if isinstance(value, torch.Tensor):
        spec = spec_of(value)
        return torch.empty_strided(spec.shape, spec.stride, dtype=spec.dtype, device=META)
    return META if isinstance(value, torch.device) else value


def _scalar_on_meta(value: Any) -> Any:
    return value.to(META) if isinstance(value, torch.Tensor) and value.dim() == 0 else value


def accepting_numbers(run: Callable[..., Any], plan: Plan, args: Any, kwargs: Any, device: torch.device = CPU) -> Any:
    """``run``, once more with numbers as 0-dim tensors on ``device`` if it does not take them as they are.

    C++ turns a number into such a tensor and PyTorch hands it to Python as a number again; some operators
    (``fmod``) do not accept it back. Floats take the default dtype, so that promotion stays the same.
    """
    try:
        return run(*args, **kwargs)
    except RuntimeError as error:
        if "Expected a value of type 'Tensor'" not in str(error):
            raise
    changed = list(args)
    for position in plan.tensor_positions:
        if position < len(args) and isinstance(args[position], (int, float, complex)):
            changed[position] = _scalar(args[position], device)
    return run(*changed, **kwargs)


def _scalar(value: Any, device: torch.device) -> torch.Tensor:
    if isinstance(value, float):
        dtype = torch.get_default_dtype()
    elif isinstance(value, complex):
        dtype = torch.complex64
    else:
        dtype = torch.bool if isinstance(value, bool) else torch.int64
    return torch.scalar_tensor(value, dtype=dtype, device=device)


def _real(value: Any) -> Any:
    if type(value) is VirtualTensor:
        return value.shadow
    return CPU if isinstance(value, torch.device) else value


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
        return value.device.type == "cpu"
    key.append(kind)  # 1, 1.0 and True are equal as keys and differ as arguments
    key.append(value)
    return 0


def _virtual(outputs: Any, shadow: Any) -> Any:
    if type(outputs) is TensorSpec:
        return virtual_tensor(outputs, shadow)
    if isinstance(outputs, (tuple, list)):
        shadows = shadow if isinstance(shadow, (tuple, list)) else (None,) * len(outputs)
        return type(outputs)(_virtual(output, known) for output, known in zip(outputs, shadows, strict=True))
    return outputs


def _after(argument: torch.Tensor, ran: Ran | None) -> TensorSpec:
    """The spec of an argument after the call, where float32 was written into in its place."""
    if ran is None or id(argument) not in ran.replaced:
        return spec_of(argument)
    spec: TensorSpec = _specs(ran.replaced[id(argument)], ran)
    return spec


def _specs(result: Any, ran: Ran | None = None) -> Any:
    if isinstance(result, torch.Tensor):
        spec = spec_of(result)
        if ran is None or spec.layout is not torch.strided:
            return spec
        return interned(spec.shape, spec.stride, ran.original(spec.dtype))
    if isinstance(result, (tuple, list)):
        return (tuple if isinstance(result, tuple) else list)(_specs(item, ran) for item in result)
    return result


# Operators that take CPU tensors beside MPS ones: copies, and indices (``TensorAdvancedIndexing.cpp``).
_TAKE_BOTH = frozenset({"copy_", "_to_copy", "_copy_from", "index", "_unsafe_index", "index_put_", "_index_put_impl_"})


MIXED_DEVICES = "a CPU tensor meets {} tensors here: most operators refuse that, move it to the device first"


def _few_of_sparse(args: Any, kwargs: Any) -> bool:
    """Whether sparse tensors are among the arguments, and all are small enough for the CPU."""
    specs = [spec_of(tensor) for tensor in tensors_in((args, kwargs))]
    small = sum(spec.stored for spec in specs) <= MATERIALISE_LIMIT
    return small and any(spec.layout is not torch.strided for spec in specs)


def _caution(plan: Plan, args: Any, kwargs: Any) -> str | None:
    if plan.func._schema.name.removeprefix("aten::") in _TAKE_BOTH:
        return None
    tensors = tensors_in((args, kwargs))
    plain = [t for t in tensors if type(t) is not VirtualTensor and t.dim() > 0 and not t.is_meta]
    return MIXED_DEVICES.format(stands_for.type.upper()) if 0 < len(plain) < len(tensors) else None


def written_arguments(plan: Plan, args: Any, kwargs: Any) -> list[Any]:
    """The arguments that the schema marks as written, in its order; None where the call leaves one out."""
    return [args[position] if position < len(args) else kwargs.get(name) for position, name in plan.written]


def _forget_written(plan: Plan, args: Any, kwargs: Any) -> None:
    for tensor in tensors_in(written_arguments(plan, args, kwargs)):
        if type(tensor) is VirtualTensor:
            forget(tensor)
