"""Where C++ asks for the device type, or for subclasses of tensors: of virtual ones it gets another answer than on MPS.

Virtual tensors say ``meta`` there; they are subclasses, and a mode is on. With values (``devices/native``) C++ gets the
true answer, and nothing of this is needed. Operators, their files in ``aten/src/ATen``, and what a Mac does:

- ``one_hot`` (``Onehot.cpp``) compares with ``arange`` for tensors that carry the Python key; a Mac scatters into
  zeros, after reading the largest class where none was given.
- ``kl_div`` (``Loss.cpp``) avoids ``xlogy`` on MPS in 1.13 to 2.0.
- ``_linalg_check_errors`` (``BatchLinearAlgebra.cpp``) looks at nothing on meta; a Mac reads ``infos.any()``.
- ``tensor_split`` (``TensorShape.cpp``, every release) refuses indices that are not on the CPU. Here it goes on, so
  that what follows is judged too.
- ``linalg_pinv`` and ``linalg_matrix_rank`` (``LinearAlgebra.cpp``) make their tolerances in float64, on MPS in
  float32 from 2.3 on.
- ``tensordot`` (``Linear.cpp``), and ``inner`` through it, multiplies matrices on MPS. Elsewhere it calls ``dot``, or
  ``mul`` and ``sum``, where all dimensions are contracted (since 2.8; disassembled in 2.8.0, 2.13.0 and 2.15.0).
- The dtype to accumulate in (``toAccumulateType``, ``AccumulateType.h``) is float32 for float32 on MPS, float64 on meta
  and on the CPU. From the calls of both its overloads in the macOS libraries of 1.12.1 to 2.15.0: of the functions that
  a Mac runs, two give it the device type: ``_batch_norm_impl_index`` from 2.5 on (for a batch without elements) and
  ``renorm_backward`` from 2.2 on. Before, they only asked for CUDA, made float64 tensors, and MPS refused those.
- ``copy_`` (``Copy.cpp``), a composite kernel, calls ``mps_copy_`` when either side is on MPS;
  ``judging/registration.py`` has what that means for its verdict.
- The check of ``GradScaler`` for infinities finds none where the gradients have no values: a step that is skipped would
  hide the optimizer from the report.

The other places that ask for subclasses (``TensorSubclassLikeUtils.h``) are all callers of
``c10::impl::dispatch_mode_enabled`` in the macOS libraries of 2.6.0 to 2.15.0, with both ways read from their code:

- ``ctc_loss`` with lengths in tensors copies them to the CPU and calls ``_ctc_loss``, not ``_ctc_loss.Tensor``;
- ``matmul`` of two batches, one of one matrix without a gradient: it is expanded for ``bmm``, not folded away;
- ``linalg_eigvals`` without a gradient calls ``_linalg_eigvals``, since 2.8, and makes no eigenvectors;
- ``cumprod_backward`` and the derivatives of ``prod`` look for zeros, and need no ``cumprod`` where there are none;
- the derivative of ``max``, ``min``, ``median`` and ``nanmedian`` over all elements asks whether the result is not a
  number, then fills by a mask;
- the derivative of ``masked_fill`` by its value selects, since 1.13, where a subclass multiplies with a mask.

The same operators, of which a subclass gets the one that does not write in place; in no release do their verdicts
differ (``IN_PLACE``): ``linear``, ``cross_entropy_loss``, ``quantile``, ``isclose``, ``trace_backward``, composite
attention, ``matrix_rank``, the backward passes of ``gather``, ``index_select``, ``masked_select``, ``cummax``,
reductions with indices, ``take``, ``index``, ``clamp``, ``aminmax``, ``atan2`` and binary cross entropy, sums of
gradients.

Nothing else comes of it: views (``reshape``), ``resize_output``, checks of arguments (``embedding_bag``), flags of the
same operator (``linalg_eigvalsh``, ``linalg_svdvals``), ways that only CPU tensors have (``max_pool1d``), forward-mode
derivatives (``*_jvp``, ``hinge_embedding_loss``, ``margin_ranking_loss``), and the derivative of ``linalg_eig``, which
no release has a kernel for; ``linalg_det`` differs in its second derivative alone. The derivatives of
``linalg_householder_product`` and ``linalg_matrix_exp`` join columns (``cat``) where a Mac copies them into zeros.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.knowledge.calls.keys import is_implicit, operator_name
from mpsprobe_coverage.knowledge.calls.spec import has_no_data, spec_of
from mpsprobe_coverage.knowledge.kernels.table import UNKNOWN, KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Plan, Route, as_it_is, composite_route

_aten = torch.ops.aten
_IMPLICIT = DispatchKey.CompositeImplicitAutograd
_current_node: Callable[[], Any] = torch._C._current_autograd_node
_SPLIT = _aten.tensor_split.tensor_indices_or_sections
_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}
IN_PLACE = {
    "add.Tensor": "add_.Tensor", "bitwise_and.Tensor": "__iand__.Tensor", "clamp_min": "clamp_min_",
    "index_add": "index_add_", "index_fill.int_Tensor": "index_fill_.int_Tensor", "index_put": "_index_put_impl_",
    "lerp.Tensor": "lerp_.Tensor", "logical_and": "logical_and_", "logical_or": "logical_or_",
    "masked_fill.Scalar": "masked_fill_.Scalar", "masked_scatter": "masked_scatter_", "mul.Tensor": "mul_.Tensor",
    "put": "put_", "scatter.src": "scatter_.src", "scatter_add": "scatter_add_", "sub.Tensor": "sub_.Tensor",
    "sum.dim_IntList": "sum.IntList_out",
}  # fmt: skip
"""What is called for subclasses → what a Mac calls there."""
_OF_RENORM_BACKWARD = ("aten::linalg_vector_norm", "aten::sum.dim_IntList")


def routes_of_mps(table: KernelTable) -> list[Route]:
    needed = [
        composite_route("aten::one_hot", one_hot),
        Route("aten::_linalg_check_errors", _check_errors),
        composite_route(operator_name(_SPLIT), tensor_split),
        composite_route("aten::tensordot", tensordot),
        composite_route("aten::_batch_norm_impl_index", batch_norm),
        *(Route(name, _in_float32) for name in _OF_RENORM_BACKWARD),
        composite_route("aten::ctc_loss.Tensor", ctc_loss),
        composite_route("aten::matmul", matmul),
        composite_route("aten::cumprod_backward", cumprod_backward),
        _differentiated(_aten.prod.default, _Product),
        _differentiated(_aten.prod.dim_int, _Product),
    ]
    packets = (_aten.max, _aten.min, _aten.median, _aten.nanmedian)
    needed += [_differentiated(packet.default, _Evenly) for packet in packets]
    if table.at_least("1.13"):
        needed.append(composite_route("aten::where.ScalarOther", where))
        if not table.at_least("2.1"):
            needed.append(composite_route("aten::kl_div", kl_div))
    if hasattr(_aten, "_linalg_eigvals") and table.verdict("aten::_linalg_eigvals") != UNKNOWN:
        needed.append(composite_route("aten::linalg_eigvals", eigvals))
    if table.at_least("2.3"):
        for packet in (_aten.linalg_pinv, _aten.linalg_matrix_rank):
            overloads = [getattr(packet, name) for name in packet.overloads() if "out" not in name]
            needed += [_float32_tolerances(func) for func in overloads]
    return needed


def routes_of_any_backend() -> list[Route]:
    return [Route("aten::copy_", _copy), Route("aten::_amp_foreach_non_finite_check_and_unscale_", _check_infinities)]


def one_hot(dispatch: Dispatch, tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    if tensor.dtype is not torch.int64:
        return _aten.one_hot.default._op_dk(_IMPLICIT, tensor, num_classes)  # type: ignore[no-any-return]  # it says why
    if num_classes == -1:
        num_classes = int(tensor.max().item()) + 1
    classes = torch.zeros((*tensor.shape, num_classes), dtype=tensor.dtype, device=tensor.device)
    return classes.scatter_(-1, tensor.unsqueeze(-1), 1)


def tensordot(
    dispatch: Dispatch, first: torch.Tensor, second: torch.Tensor, dims_first: list[int], dims_second: list[int]
) -> torch.Tensor:
    pairs = [(one % first.dim(), other % second.dim()) for one, other in zip(dims_first, dims_second, strict=True)]
    left, right = first, second
    for dim, other in pairs:
        if second.shape[other] == 1:
            left = left.sum([dim], True, dtype=left.dtype)
        elif first.shape[dim] == 1:
            right = right.sum([other], True, dtype=right.dtype)
    contracted = [one for one, _ in pairs], [other for _, other in pairs]
    kept = [[at for at in range(t.dim()) if at not in c] for t, c in zip((first, second), contracted, strict=True)]
    sizes = [[t.shape[at] for at in dims] for t, dims in zip((first, second), kept, strict=True)]
    size = math.prod(left.shape[at] for at in contracted[0])
    left = left.permute(kept[0] + contracted[0]).reshape(math.prod(sizes[0]), size)
    right = right.permute(contracted[1] + kept[1]).reshape(size, math.prod(sizes[1]))
    return left.mm(right).reshape(sizes[0] + sizes[1])


def tensor_split(dispatch: Dispatch, tensor: torch.Tensor, places: torch.Tensor, dim: int = 0) -> Any:
    real = places
    if has_no_data(places):
        real = dispatch.known_or_assumed(places, operator_name(_SPLIT), "ones", fill=1)
    with dispatch.muted():
        parts = _SPLIT._op_dk(_IMPLICIT, tensor, real, dim)
    if real is not places:
        outputs = tuple(spec_of(part) for part in parts)
        dispatch.record(
            dispatch.plan_of(_SPLIT), (tensor, places, dim), {}, (spec_of(tensor), spec_of(places)), outputs
        )
    return parts


def _check_errors(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """No matrix is singular here: the values of ``infos`` are not known, and an error would be the user's."""
    with dispatch:
        failed = args[0].any()
    dispatch.record(dispatch.plan_of(_aten._local_scalar_dense.default), (failed,), {}, (spec_of(failed),), ())


def kl_div(
    dispatch: Dispatch, tensor: torch.Tensor, target: torch.Tensor, reduction: int = 1, *, log_target: bool = False
) -> torch.Tensor:
    if log_target:
        output = target.exp() * (target - tensor)
    else:
        output = target * (target.log() - tensor)
        output = torch.where(target > 0, output, torch.zeros_like(output))
    kind = _REDUCTIONS.get(reduction, "none")
    return output.mean() if kind == "mean" else output.sum() if kind == "sum" else output


def _float32_tolerances(func: Any) -> Route:
    """Above autograd for an overload that is composite there, below it for one with a derivative of its own."""
    name = operator_name(func)
    implicit = is_implicit(name)
    key = _IMPLICIT if implicit else DispatchKey.CompositeExplicitAutogradNonFunctional

    def run(dispatch: Dispatch, *args: Any, **kwargs: Any) -> Any:
        with dispatch.in_float32():
            return func._op_dk(key, *args, **kwargs)

    route = composite_route(name, run)
    return route if implicit else dataclasses.replace(route, above_autograd=None)


def ctc_loss(
    dispatch: Dispatch,
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    *options: Any,
    **named: Any,
) -> Any:
    lengths = input_lengths.tolist(), target_lengths.tolist()
    return _aten.ctc_loss.IntList(log_probs, targets, *lengths, *options, **named)


def matmul(dispatch: Dispatch, first: torch.Tensor, second: torch.Tensor) -> Any:
    if first.dim() == second.dim() == 3:
        batches = first.shape[0], second.shape[0]
        if 1 in batches and batches != (1, 1):
            single = first if batches[0] == 1 else second
            if not single.requires_grad:
                expanded = (tensor.expand(max(batches), -1, -1) for tensor in (first, second))
                return torch.bmm(*expanded)
    return _aten.matmul.default._op_dk(_IMPLICIT, first, second)


def eigvals(dispatch: Dispatch, tensor: torch.Tensor) -> Any:
    if torch.is_grad_enabled() and tensor.requires_grad:
        return _aten.linalg_eigvals.default._op_dk(_IMPLICIT, tensor)
    return _aten._linalg_eigvals.default(tensor)


def cumprod_backward(
    dispatch: Dispatch, gradient: torch.Tensor, tensor: torch.Tensor, dim: int, output: torch.Tensor
) -> torch.Tensor:
    """Three tensors of one shape; the result is of it too (``ReduceOps.cpp``). No element is taken for zero."""
    if tensor.numel() <= 1 or tensor.shape[dim] == 1:
        return gradient
    weighted = output.conj() * gradient
    _read(dispatch, (tensor == 0).any())
    dispatch.assumed("aten::_local_scalar_dense", "no element is zero")
    return weighted.flip(dim).cumsum(dim).flip(dim) / tensor.conj()


def where(dispatch: Dispatch, condition: torch.Tensor, tensor: torch.Tensor, other: Any) -> Any:
    run = partial(_aten.where.ScalarOther._op_dk, _IMPLICIT, condition, tensor, other)
    node = _current_node()
    if node is None or node.name() != "MaskedFillBackward1":
        return run()
    with dispatch.muted():
        kept = run()
    plan, inputs = dispatch.plan_of(_aten.masked_select.default), (spec_of(tensor), spec_of(condition))
    dispatch.record(plan, (tensor, condition), {}, inputs, (spec_of(kept),))
    return kept


class _Derived(torch.autograd.Function):
    """``func(tensor, …)``, with the derivative that a tensor on a Mac gets."""

    @staticmethod
    def forward(ctx: Any, dispatch: Dispatch, func: Any, tensor: torch.Tensor, *options: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            result = func(tensor, *options)
        ctx.dispatch, ctx.options = dispatch, options
        ctx.save_for_backward(tensor, result)
        return result


class _Evenly(_Derived):
    """``evenly_distribute_backward`` (``FunctionsManual.cpp``). The result is taken for a number."""

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        tensor, result = ctx.saved_tensors
        _read(ctx.dispatch, result.isnan())
        mask = tensor == result
        share = gradient / mask.sum()
        return None, None, torch.zeros_like(tensor).masked_fill_(mask, share)


class _Product(_Derived):
    """``prod_backward`` (``FunctionsManual.cpp``). No element is taken for zero."""

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        tensor, result = ctx.saved_tensors
        tensor, nothing = tensor.to(gradient.dtype), (None,) * len(ctx.options)
        if tensor.dim() == 0:
            return None, None, gradient.clone(), *nothing
        zero = tensor == 0
        if not ctx.options:
            with ctx.dispatch.muted():
                places = spec_of(tensor.new_empty((0, tensor.dim()), dtype=torch.int64))
            ctx.dispatch.record(ctx.dispatch.plan_of(_aten.nonzero.default), (zero,), {}, (spec_of(zero),), (places,))
        else:
            dim, keeps = ctx.options[0], len(ctx.options) > 1 and ctx.options[1]
            if not keeps:
                gradient, result = gradient.unsqueeze(dim), result.unsqueeze(dim)
            _read(ctx.dispatch, zero.sum(dim, True).sum())
        ctx.dispatch.assumed("aten::nonzero" if not ctx.options else "aten::_local_scalar_dense", "no element is zero")
        return None, None, gradient * (result / tensor).conj(), *nothing


def _differentiated(func: Any, derived: type[_Derived]) -> Route:
    """A route above autograd alone: with a gradient ``derived``, and below it what there was."""

    def above(dispatch: Dispatch, tensor: torch.Tensor, *options: Any, **named: Any) -> Any:
        run = partial(func, **named)
        if torch.is_grad_enabled() and tensor.requires_grad:
            return derived.apply(dispatch, run, tensor, *options)
        with torch._C._AutoDispatchBelowAutograd():
            return run(tensor, *options)

    return Route(operator_name(func), as_it_is, above_autograd=above)


def _read(dispatch: Dispatch, tensor: torch.Tensor) -> None:
    """C++ reads the one element of ``tensor``."""
    dispatch.record(dispatch.plan_of(_aten._local_scalar_dense.default), (tensor,), {}, (spec_of(tensor),), ())


def batch_norm(dispatch: Dispatch, tensor: torch.Tensor, *args: Any) -> Any:
    """Arguments of ``_batch_norm_impl_index``; statistics of a batch without elements are float32."""
    narrow = not tensor.numel() and dispatch.release.at_least("2.5")
    with dispatch.in_float32() if narrow else nullcontext():
        return _aten._batch_norm_impl_index.default._op_dk(_IMPLICIT, tensor, *args)


def _in_float32(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The two calls of ``renorm_backward`` that name the dtype; that of the others follows."""
    if kwargs.get("dtype") is torch.float64 and args[0].dtype is torch.float32:
        node = _current_node()
        if node is not None and node.name().startswith("RenormBackward") and dispatch.release.at_least("2.2"):
            kwargs = {**kwargs, "dtype": torch.float32}
    return as_it_is(dispatch, plan, args, kwargs)


def _copy(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if has_no_data(args[0]):
        return dispatch.leaf(plan, args, kwargs)
    values = dispatch.known_or_assumed(args[1], plan.name, "zeros", fill=0)
    dispatch.record_transfer(args[1], args[0].dtype, args[0])
    return args[0].copy_(values)


def _check_infinities(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    found_inf = args[1]
    known = dispatch.known_values(found_inf)
    before = None if known is None else known.clone()  # what lies in the memory itself is forgotten by the call
    result = dispatch.leaf(plan, args, kwargs)
    if before is not None and dispatch.known_values(found_inf) is None:
        found_inf.shadow = before
        dispatch.assumed(plan.name, "no gradient is infinite or NaN")
    return result
