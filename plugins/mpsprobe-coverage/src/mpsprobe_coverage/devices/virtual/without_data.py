"""What an operator leaves behind, found without its data: the specs of its results and of what it reshaped.

The meta kernel is asked, or a reference of ours for operators that only MPS has. Where it cannot say, these are tried:

1. the CPU kernel, on zeros, where they are few;
2. either of them on tensors of the same rank with small sizes (``resizing.py``), where they are many;
3. both in another dtype, where they lack the code for the dtype (``upcast.py``);
4. what the operator writes and returns, as it was before.

A message that both kernels have of their own, about a dtype, holds on every device. It is kept: that is the verdict.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from mpsprobe_coverage.devices.virtual.resizing import on_smaller
from mpsprobe_coverage.devices.virtual.tensor import VirtualTensor, layouts_seen, mapped, without_data
from mpsprobe_coverage.devices.virtual.wider_dtypes import Ran, in_another_dtype, lacks_code
from mpsprobe_coverage.knowledge.calls.spec import CPU, META, TensorSpec, interned, spec_of, tensors_in
from mpsprobe_coverage.recording.dispatch import Plan, written_arguments

MATERIALISE_LIMIT = 2**24  # elements: how much to allocate, once, to run a kernel that has no meta version
_OF_OTHERS = 2**14
"""Elements from which on another library's kernel is tried on fewer first: it may compare each with each (``nms``)."""


class LeftBehind(NamedTuple):
    """Specs after a call.

    Attributes:
        outputs: its result, with a spec in the place of each tensor.
        after: id of a tensor argument → its spec.
        refused: what PyTorch raises for the call on every device; the specs are then those of another dtype.
    """

    outputs: Any
    after: dict[int, TensorSpec]
    refused: Exception | None = None


def left_behind(plan: Plan, args: Any, kwargs: Any) -> LeftBehind:
    """Run a reference for the call.

    Raises:
        Exception: what the reference raises, where no way leads around that.
    """
    few_of_sparse = bool(layouts_seen) and _few_of_sparse(args, kwargs)
    try:
        if few_of_sparse:  # meta kernels do not say how many are specified
            raise NotImplementedError(f"{plan.func} is run on the CPU for sparse tensors")
        return _on_meta(plan, args, kwargs)
    except Exception as error:  # noqa: BLE001 - kernels in Python raise what they like
        return _another_way(plan, args, kwargs, error)


def _another_way(plan: Plan, args: Any, kwargs: Any, error: Exception) -> LeftBehind:
    """The meta kernel raised ``error``."""
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
            raise _too_large(plan, specs) if isinstance(error, NotImplementedError) else error from None
    try:
        return _run(plan, args, kwargs, _zeros, CPU)
    except Exception as refused:  # noqa: BLE001 - whatever it is, it decides between the two errors
        lacking = lacks_code(refused) or lacks_code(error) or _is_missing(error)
        found = _in_another_dtype(plan, args, kwargs)
        if found is None and lacking:
            found = _as_before(plan, args, kwargs)
        if found is not None:
            return found if lacking else found._replace(refused=_bare(refused))
        raise error if not isinstance(error, NotImplementedError) else refused from None


def _is_missing(error: Exception) -> bool:
    """Whether it only says that there is no meta kernel; a message of the dispatcher or of ours."""
    return isinstance(error, (NotImplementedError, KeyError))


def _bare(error: Exception) -> Exception:
    """Without what keeps frames, and their tensors, alive."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def _too_large(plan: Plan, specs: list[TensorSpec]) -> NotImplementedError:
    total = sum(spec.stored for spec in specs)
    return NotImplementedError(
        f"{plan.func} has no meta kernel, and its inputs ({total} elements) are too large to try it with zeros"
    )


def _run(
    plan: Plan,
    args: Any,
    kwargs: Any,
    make: Callable[[torch.Tensor], torch.Tensor | None],
    device: torch.device,
    numbers: torch.device = CPU,
) -> LeftBehind:
    """Run the reference for ``device`` on what ``make`` makes of each tensor, which stays where it makes None."""
    inner: dict[int, torch.Tensor] = {}

    def replace(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in inner:
                made = make(value)
                if made is None:
                    return value
                inner[id(value)] = made
            return inner[id(value)]
        return device if isinstance(value, torch.device) else value

    new_args, new_kwargs = mapped(replace, (args, kwargs))
    result = accepting_numbers(plan.run, plan, new_args, new_kwargs, numbers)
    return LeftBehind(specs_of(result), {key: spec_of(tensor) for key, tensor in inner.items()})


def _on_meta(plan: Plan, args: Any, kwargs: Any) -> LeftBehind:
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
        return _run(plan, args, kwargs, _meta, META, numbers=META)


def _meta(tensor: torch.Tensor) -> torch.Tensor:
    return spec_of(tensor).empty()


def _meta_but_scalars(tensor: torch.Tensor) -> torch.Tensor | None:
    plain = type(tensor) is not VirtualTensor and type(tensor) not in without_data
    return None if plain and tensor.dim() == 0 else spec_of(tensor).empty()


def _zeros(tensor: torch.Tensor) -> torch.Tensor:
    return spec_of(tensor).filled(0).requires_grad_(tensor.requires_grad)


def _on_smaller(plan: Plan, args: Any, kwargs: Any) -> LeftBehind:
    """As for the sizes of the call, from two runs on small ones: of the meta kernel, else of the CPU's."""

    def run(small_args: Any, small_kwargs: Any, sizes: Callable[[torch.Tensor], TensorSpec]) -> tuple[Any, Any]:
        try:
            found = _run(plan, small_args, small_kwargs, lambda t: sizes(t).empty(), META)
        except Exception:  # noqa: BLE001 - as in `left_behind`
            found = _run(plan, small_args, small_kwargs, lambda t: sizes(t).filled(0), CPU)
        return found.outputs, found.after

    return LeftBehind(*on_smaller(run, args, kwargs))


def _in_another_dtype(plan: Plan, args: Any, kwargs: Any) -> LeftBehind | None:
    inner: dict[int, torch.Tensor] = {}

    def zeros(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return inner.setdefault(id(value), _zeros(value))
        return CPU if isinstance(value, torch.device) else value

    zero_args, zero_kwargs = mapped(zeros, (args, kwargs))
    ran = in_another_dtype(lambda *a, **k: accepting_numbers(plan.run, plan, a, k), zero_args, zero_kwargs)
    if ran is None:
        return None
    after = {key: specs_of(ran.replaced.get(id(tensor), tensor), ran) for key, tensor in inner.items()}
    return LeftBehind(specs_of(ran.result, ran), after)


def _as_before(plan: Plan, args: Any, kwargs: Any) -> LeftBehind | None:
    """What is written has the dtype and the size that it had, where nothing else is returned."""
    written = written_arguments(plan, args, kwargs)
    outputs = [spec_of(written[source]) for source in plan.returned if source is not None]
    if not outputs or len(outputs) < len(plan.returned) or any(spec.layout is not torch.strided for spec in outputs):
        return None
    return LeftBehind(outputs[0] if len(outputs) == 1 else tuple(outputs), {})


def _few_of_sparse(args: Any, kwargs: Any) -> bool:
    """Whether sparse tensors are among the arguments, and all are small enough for the CPU."""
    specs = [spec_of(tensor) for tensor in tensors_in((args, kwargs))]
    small = sum(spec.stored for spec in specs) <= MATERIALISE_LIMIT
    return small and any(spec.layout is not torch.strided for spec in specs)


def _large_sparse(plan: Plan, args: Any, kwargs: Any) -> LeftBehind:
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
