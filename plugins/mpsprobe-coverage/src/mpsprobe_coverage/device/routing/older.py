"""Operators that older releases made of others than the installed torch does, where that changes a verdict.

Found by comparing the call lists of every composite kernel in 2.13.0 with those of eight other releases.
From 2.2 on nothing differs; before, the bodies of 2.13 call operators that the release has no MPS kernel
for, and that its own bodies do not call. The same for two calls of Python code in torch: AdamW took
``lerp_`` up in 2.1, and ``clip_grad_norm_`` ``linalg.vector_norm``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from mpsprobe_coverage.device.routing.route import Route, at_least, composite_route
from mpsprobe_coverage.kernels.table import KernelTable

if TYPE_CHECKING:
    from mpsprobe_coverage.device.interception import Interception
    from mpsprobe_coverage.device.plan import Plan

_aten = torch.ops.aten
_WITH_LENGTH_TENSORS = {
    "aten::_ctc_loss.Tensor": ("input_lengths", "target_lengths"),
    "aten::_ctc_loss_backward.Tensor": ("input_lengths", "target_lengths"),
}


def routes(table: KernelTable) -> list[Route]:
    """Those that the release of ``table`` needs."""
    found = []
    if not at_least(table, "2.10"):
        found.append(composite_route("aten::take_along_dim", take_along_dim))
    if table.verdict("aten::_embedding_bag_backward") == "composite":
        found.append(Route("aten::_embedding_bag_backward", _embedding_bag_backward))
    if not at_least(table, "2.3"):
        found.append(Route("aten::binary_cross_entropy_with_logits", _bce_with_logits))
    if not at_least(table, "2.1"):
        found.append(composite_route("aten::cosine_similarity", cosine_similarity))
        found.append(Route("aten::lerp_.Scalar", _lerp))
        found.append(Route("aten::linalg_vector_norm", _vector_norm))
    lacking = [name for name in _WITH_LENGTH_TENSORS if name not in table.operators]
    return found + [Route(name, _with_length_lists) for name in lacking]


def cosine_similarity(
    interception: Interception, first: torch.Tensor, second: torch.Tensor, dim: int = 1, eps: float = 1e-8
) -> torch.Tensor:
    """Shapes as ``torch.nn.functional.cosine_similarity`` has them."""
    del interception
    first, second = torch.broadcast_tensors(first, second)
    product = (first * second).sum(dim)
    squares = first.pow(2).sum(dim) * second.pow(2).sum(dim)
    return product / squares.clamp_min(eps * eps).sqrt()


def take_along_dim(
    interception: Interception, tensor: torch.Tensor, indices: torch.Tensor, dim: int | None = None
) -> torch.Tensor:
    """Shapes as ``torch.take_along_dim`` has them; the body up to 2.9, which takes no negative indices."""
    del interception
    if dim is None:
        return tensor.reshape(-1).gather(0, indices.reshape(-1))
    wanted = [max(sizes) for sizes in zip(tensor.shape, indices.shape, strict=True)]
    at = dim % tensor.dim()
    tensor_shape, indices_shape = [*wanted], [*wanted]
    tensor_shape[at], indices_shape[at] = tensor.shape[at], indices.shape[at]
    return tensor.expand(tensor_shape).gather(at, indices.expand(indices_shape))


def _embedding_bag_backward(
    interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The body up to 2.4 (``EmbeddingBag.cpp``): it ends in the dense or the sparse form."""
    names = [argument.name for argument in plan.func._schema.arguments]
    bound = {"padding_idx": -1, **dict(zip(names, args, strict=False)), **kwargs}
    if bound["sparse"]:
        return _as_it_is(interception, plan, args, kwargs)
    target = interception.plan_of(_aten._embedding_bag_dense_backward.default)
    wanted = [argument.name for argument in target.func._schema.arguments]
    return interception.leaf(target, tuple(bound[name] for name in wanted), {})


def _bce_with_logits(interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The body up to 2.2 (``Loss.cpp``): the log-sum-exp form without ``log_sigmoid``."""
    names = [argument.name for argument in plan.func._schema.arguments]
    bound = {**dict.fromkeys(names), **dict(zip(names, args, strict=False)), **kwargs}
    tensor, target, weight, pos_weight = (bound[n] for n in ("self", "target", "weight", "pos_weight"))
    reduction = 1 if bound["reduction"] is None else bound["reduction"]
    with interception:
        largest = (-tensor).clamp_min_(0)
        rest = ((-largest).exp_() + (-tensor - largest).exp_()).log_() + largest
        if pos_weight is not None:
            loss = (1 - target) * tensor + ((pos_weight - 1) * target + 1) * rest
        else:
            loss = (1 - target) * tensor + rest
        if weight is not None:
            loss = loss * weight
        return loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss


def _lerp(interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if interception.recorder.phase != "optimizer":
        return _as_it_is(interception, plan, args, kwargs)
    tensor, end, weight = args
    with interception:
        return tensor.mul_(1 - weight).add_(end, alpha=weight)


def _vector_norm(interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if interception.recorder.phase != "optimizer" or len(args) > 2 or kwargs:
        return _as_it_is(interception, plan, args, kwargs)
    with interception:
        return _aten.norm.ScalarOpt_dim(args[0], args[1] if len(args) > 1 else 2, [], False)


def _as_it_is(interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As without a route: a leaf where it has a kernel or none at all, its composite kernel otherwise."""
    if plan.verdict == "composite" and plan.composite_key is not None:
        with interception:
            return plan.func._op_dk(plan.composite_key, *args, **kwargs)
    return interception.leaf(plan, args, kwargs)


def _with_length_lists(interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``ctc_loss`` copied its lengths to the CPU before it had a form that takes them as tensors."""
    names = [argument.name for argument in plan.func._schema.arguments]
    lists = _WITH_LENGTH_TENSORS[plan.name]
    packet = getattr(_aten, plan.func._schema.name.removeprefix("aten::"))
    with interception:
        changed = [v.tolist() if n in lists else v for n, v in zip(names, args, strict=False)]
        return packet.default(*changed, **kwargs)
