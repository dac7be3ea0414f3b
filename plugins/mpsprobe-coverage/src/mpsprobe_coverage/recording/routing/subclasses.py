"""Where C++ asks whether a tensor is a subclass, or a mode is on (``aten/src/ATen/TensorSubclassLikeUtils.h``).

It takes another way then, and always does here: virtual tensors are such, and a mode is on. No tensor on a Mac is. The
places are all callers of ``c10::impl::dispatch_mode_enabled`` in the macOS libraries of 2.6.0 to 2.15.0, with both ways
read from their code, and the one other test of the Python key, ``one_hot`` (``branches.py``).

Another way on a Mac, which has a route here:

- ``ctc_loss`` with lengths in tensors copies them to the CPU and calls ``_ctc_loss``, not ``_ctc_loss.Tensor``;
- ``matmul`` of two batches, one of them of one matrix without a gradient: it is expanded for ``bmm``, not folded away;
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

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.knowledge.calls.keys import operator_name
from mpsprobe_coverage.knowledge.calls.spec import spec_of
from mpsprobe_coverage.knowledge.kernels.table import UNKNOWN, KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Route, composite_route
from mpsprobe_coverage.recording.routing.older_releases import as_it_is

_aten = torch.ops.aten
_IMPLICIT = DispatchKey.CompositeImplicitAutograd
_current_node: Callable[[], Any] = torch._C._current_autograd_node
IN_PLACE = {
    "add.Tensor": "add_.Tensor", "bitwise_and.Tensor": "__iand__.Tensor", "clamp_min": "clamp_min_",
    "index_add": "index_add_", "index_fill.int_Tensor": "index_fill_.int_Tensor", "index_put": "_index_put_impl_",
    "lerp.Tensor": "lerp_.Tensor", "logical_and": "logical_and_", "logical_or": "logical_or_",
    "masked_fill.Scalar": "masked_fill_.Scalar", "masked_scatter": "masked_scatter_", "mul.Tensor": "mul_.Tensor",
    "put": "put_", "scatter.src": "scatter_.src", "scatter_add": "scatter_add_", "sub.Tensor": "sub_.Tensor",
    "sum.dim_IntList": "sum.IntList_out",
}  # fmt: skip
"""What is called for subclasses → what a Mac calls there."""


def routes(table: KernelTable) -> list[Route]:
    """Those that the release of ``table`` needs."""
    needed = [
        composite_route("aten::ctc_loss.Tensor", ctc_loss),
        composite_route("aten::matmul", matmul),
        composite_route("aten::cumprod_backward", cumprod_backward),
        _differentiated(_aten.prod.default, _Product),
        _differentiated(_aten.prod.dim_int, _Product),
    ]
    needed += [_differentiated(packet.default, _Evenly) for packet in (_aten.max, _aten.min, _aten.median)]
    needed.append(_differentiated(_aten.nanmedian.default, _Evenly))
    if table.at_least("1.13"):
        needed.append(composite_route("aten::where.ScalarOther", where))
    if hasattr(_aten, "_linalg_eigvals") and table.verdict("aten::_linalg_eigvals") != UNKNOWN:
        needed.append(composite_route("aten::linalg_eigvals", eigvals))
    return needed


def ctc_loss(
    dispatch: Dispatch,
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    *options: Any,
    **named: Any,
) -> Any:
    """Shapes as ``torch.nn.functional.ctc_loss`` has them; lengths (N) of whole numbers (``LossCTC.cpp``)."""
    del dispatch
    lengths = input_lengths.tolist(), target_lengths.tolist()
    return _aten.ctc_loss.IntList(log_probs, targets, *lengths, *options, **named)


def matmul(dispatch: Dispatch, first: torch.Tensor, second: torch.Tensor) -> Any:
    """Shapes as ``torch.matmul`` has them (``LinearAlgebra.cpp``)."""
    del dispatch
    if first.dim() == second.dim() == 3:
        batches = first.shape[0], second.shape[0]
        if 1 in batches and batches != (1, 1):
            single = first if batches[0] == 1 else second
            if not single.requires_grad:
                expanded = (tensor.expand(max(batches), -1, -1) for tensor in (first, second))
                return torch.bmm(*expanded)
    return _aten.matmul.default._op_dk(_IMPLICIT, first, second)


def eigvals(dispatch: Dispatch, tensor: torch.Tensor) -> Any:
    """``tensor`` (…, n, n) (``BatchLinearAlgebra.cpp``)."""
    del dispatch
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
    """Shapes as ``torch.where`` has them; in ``masked_fill_backward`` (``FunctionsManual.cpp``) all is selected."""
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
                found = spec_of(tensor.new_empty((0, tensor.dim()), dtype=torch.int64))
            ctx.dispatch.record(ctx.dispatch.plan_of(_aten.nonzero.default), (zero,), {}, (spec_of(zero),), (found,))
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
