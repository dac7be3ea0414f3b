"""Operators that older releases made of others than the installed torch does, where that changes a verdict.

Found by comparing the call lists of every composite kernel in 2.13.0 with those of eight other releases.
From 2.2 on nothing differs; before, the bodies of 2.13 call operators that the release has no MPS kernel
for, and that its own bodies do not call. The same for two calls of Python code in torch: AdamW took
``lerp_`` up in 2.1, and ``clip_grad_norm_`` ``linalg.vector_norm``.
"""

from __future__ import annotations

from typing import Any

import torch

from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Plan, Route, composite_route

_aten = torch.ops.aten


def routes(table: KernelTable) -> list[Route]:
    """Those that the release of ``table`` needs."""
    needed = []
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
    """Shapes as ``torch.nn.functional.cosine_similarity`` has them."""
    del dispatch
    first, second = torch.broadcast_tensors(first, second)
    product = (first * second).sum(dim)
    squares = first.pow(2).sum(dim) * second.pow(2).sum(dim)
    return product / squares.clamp_min(eps * eps).sqrt()


def take_along_dim(
    dispatch: Dispatch, tensor: torch.Tensor, indices: torch.Tensor, dim: int | None = None
) -> torch.Tensor:
    """Shapes as ``torch.take_along_dim`` has them; the body up to 2.9, which takes no negative indices."""
    del dispatch
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


def as_it_is(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As without a route: a leaf where it has a kernel or none at all, its composite kernel otherwise."""
    if plan.registered.verdict == "composite" and plan.composite_key is not None:
        with dispatch:
            return plan.func._op_dk(plan.composite_key, *args, **kwargs)
    return dispatch.leaf(plan, args, kwargs)
