"""Operators that other releases make of others than the installed torch does, or do not have.

Found by comparing the call lists of every composite kernel in 2.13.0 with those of eight other releases. From 2.2 on no
difference changes a verdict; before, the bodies of 2.13 call operators that the release has no MPS kernel for, and that
its own bodies do not call. The same for two calls of Python code in torch: AdamW took ``lerp_`` up in 2.1, and
``clip_grad_norm_`` ``linalg.vector_norm``.

Others had kernels of their own, none for MPS, and are composite in the installed torch (``prelu`` and ``linalg_solve``
in 1.12, ``upsample_nearest3d.vec`` up to 1.13): on a Mac the call ended there, with "could not be run with arguments
from the 'MPS' backend". The dispatcher would take them apart above autograd and judge pieces that the release does not
have. So the call is recorded as what it was, missing, and its pieces only give shapes and a derivative.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.knowledge.calls.keys import is_implicit, overload_named
from mpsprobe_coverage.knowledge.calls.spec import specs_in
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Plan, Route, as_it_is, composite_route

_aten = torch.ops.aten
_SPECIAL = ("to_sparse", "get_gradients")  # their results are no strided tensors
_IMPLICIT = DispatchKey.CompositeImplicitAutograd


def routes(table: KernelTable) -> list[Route]:
    needed = [_without_kernel(name) for name in _hidden(table.missing)]
    if not table.at_least("2.10"):
        needed.append(composite_route("aten::take_along_dim", take_along_dim))
    if table.verdict("aten::_embedding_bag_backward") == "composite":
        needed.append(Route("aten::_embedding_bag_backward", _embedding_bag_backward))
    if not table.at_least("2.3"):
        needed.append(Route("aten::binary_cross_entropy_with_logits", _bce_with_logits))
    if not table.at_least("2.1"):
        needed.append(composite_route("aten::cosine_similarity", cosine_similarity))
        needed.append(Route("aten::lerp_.Scalar", _lerp))
        needed.append(Route("aten::linalg_vector_norm", _vector_norm))
    return needed


def cosine_similarity(
    dispatch: Dispatch, first: torch.Tensor, second: torch.Tensor, dim: int = 1, eps: float = 1e-8
) -> torch.Tensor:
    first, second = torch.broadcast_tensors(first, second)
    product = (first * second).sum(dim)
    squares = first.pow(2).sum(dim) * second.pow(2).sum(dim)
    return product / squares.clamp_min(eps * eps).sqrt()


def take_along_dim(
    dispatch: Dispatch, tensor: torch.Tensor, indices: torch.Tensor, dim: int | None = None
) -> torch.Tensor:
    """The body up to 2.9, which takes no negative indices."""
    if dim is None:
        return tensor.reshape(-1).gather(0, indices.reshape(-1))
    wanted = [max(sizes) for sizes in zip(tensor.shape, indices.shape, strict=True)]
    at = dim % tensor.dim()
    tensor_shape, indices_shape = [*wanted], [*wanted]
    tensor_shape[at], indices_shape[at] = tensor.shape[at], indices.shape[at]
    return tensor.expand(tensor_shape).gather(at, indices.expand(indices_shape))


def _embedding_bag_backward(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The body up to 2.4 (``EmbeddingBag.cpp``): it ends in the dense or the sparse form."""
    bound = plan.bound(args, kwargs)
    if bound["sparse"]:
        return as_it_is(dispatch, plan, args, kwargs)
    target = dispatch.plan_of(_aten._embedding_bag_dense_backward.default)
    wanted = [argument.name for argument in target.func._schema.arguments]
    return dispatch.leaf(target, tuple(bound[name] for name in wanted), {})


def _bce_with_logits(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The body up to 2.2 (``Loss.cpp``): the log-sum-exp form without ``log_sigmoid``."""
    bound = plan.bound(args, kwargs)
    tensor, target, weight, pos_weight = (bound[n] for n in ("self", "target", "weight", "pos_weight"))
    reduction = bound["reduction"]
    with dispatch:
        largest = (-tensor).clamp_min_(0)
        rest = ((-largest).exp_() + (-tensor - largest).exp_()).log_() + largest
        if pos_weight is not None:
            loss = (1 - target) * tensor + ((pos_weight - 1) * target + 1) * rest
        else:
            loss = (1 - target) * tensor + rest
        if weight is not None:
            loss = loss * weight
        return loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss


def _lerp(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if dispatch.phase != "optimizer":
        return as_it_is(dispatch, plan, args, kwargs)
    tensor, end, weight = args
    with dispatch:
        return tensor.mul_(1 - weight).add_(end, alpha=weight)


def _vector_norm(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if dispatch.phase != "optimizer" or len(args) > 2 or kwargs:
        return as_it_is(dispatch, plan, args, kwargs)
    with dispatch:
        return _aten.norm.ScalarOpt_dim(args[0], args[1] if len(args) > 1 else 2, [], False)


@cache
def _hidden(missing: frozenset[str]) -> tuple[str, ...]:
    return tuple(
        name
        for name in sorted(missing)
        if name.startswith("aten::") and is_implicit(name) and not name.removeprefix("aten::").startswith(_SPECIAL)
    )


def _without_kernel(name: str) -> Route:
    func = overload_named(name)

    def run(dispatch: Dispatch, *args: Any, **kwargs: Any) -> Any:
        with dispatch.muted():
            result = func._op_dk(_IMPLICIT, *args, **kwargs)
        dispatch.record(dispatch.plan_of(func), args, kwargs, specs_in((args, kwargs)), specs_in(result))
        return result

    return composite_route(name, run)
