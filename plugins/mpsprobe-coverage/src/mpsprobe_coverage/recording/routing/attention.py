"""``scaled_dot_product_attention``: which of its two MPS forms is called.

``aten/src/ATen/native/transformers/attention.cpp`` asks ``query.device().type() == kMPS``. Established by
disassembling that function in the macOS library of every release from 2.0.0 to 2.15.0: no fused
attention is ever chosen for MPS (``_fused_sdp_choice`` has no MPS kernel); without gradients the operator
``_scaled_dot_product_attention_math_for_mps`` is called from 2.5.0 on, otherwise the composite
``_scaled_dot_product_attention_math``. From 2.15.0 on its kernel begins by expanding all three to one batch.
"""

from __future__ import annotations

from typing import Any

import torch

from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Plan, Release, Route, composite_route

_FOR_MPS = "aten::_scaled_dot_product_attention_math_for_mps"
_aten = torch.ops.aten
OF_THE_QUERY = (
    "the result of scaled_dot_product_attention has the batch of the query on MPS before torch 2.15.0, also where "
    "that is smaller than the batch of the keys; on the CPU it has the larger one"
)


def routes(table: KernelTable) -> list[Route]:
    """Attention itself, and the softmax inside it in releases that do not have ``_safe_softmax`` yet."""
    needed = [composite_route("aten::scaled_dot_product_attention", scaled_dot_product_attention)]
    if not table.at_least("2.5"):
        needed.append(Route("aten::_safe_softmax", _plain_softmax))
    elif not table.at_least("2.6"):
        needed.append(Route("aten::_safe_softmax", _compared_softmax))
    return needed


def scaled_dot_product_attention(
    dispatch: Dispatch,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Shapes as ``torch.nn.functional.scaled_dot_product_attention`` has them."""
    release = dispatch.release
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = _additive(attn_mask, query, release)
    groups = query.size(-3) // key.size(-3) if enable_gqa and query.dim() > 2 else 1
    if not _uses_mps_operator(release, query, key, value, dropout_p):
        if not release.at_least("2.1"):
            if groups > 1:  # there models repeat the heads themselves
                key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
            return _divided(query, key, value, attn_mask, dropout_p, is_causal)
        result = _aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
        )
        return result[0]  # type: ignore[no-any-return]
    batch = torch.broadcast_shapes(*(one.shape[:-3] for one in (query, key, value)))
    if any(one.shape[:-3] != batch for one in (query, key, value)):
        if release.at_least("2.15") or dispatch.sizes_of_cpu:
            query, key, value = (one.expand(*batch, *one.shape[-3:]) for one in (query, key, value))
        elif batch != query.shape[:-3]:
            dispatch.other_sizes = OF_THE_QUERY
    operator = _aten._scaled_dot_product_attention_math_for_mps
    takes_gqa = any(a.name == "enable_gqa" for a in operator.default._schema.arguments)
    if enable_gqa and takes_gqa and release.at_least("2.12"):
        return operator(  # type: ignore[no-any-return]
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=True
        )[0]
    if groups > 1 and release.at_least("2.7"):
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    return operator(query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale)[0]  # type: ignore[no-any-return]


def _uses_mps_operator(
    release: Release, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout_p: float
) -> bool:
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        return False
    if not release.has_kernel(_FOR_MPS):
        return False
    if dropout_p != 0.0:
        return release.at_least("2.12")
    # From 2.6.0 contiguity does not matter on macOS 15 and later, which is assumed.
    return all(t.is_contiguous() for t in (query, key, value)) or release.at_least("2.6")


def _additive(mask: torch.Tensor, query: torch.Tensor, release: Release) -> torch.Tensor:
    """A boolean mask as one to add: 0 where it is true, -inf elsewhere; each call as the release makes it."""
    if release.at_least("2.5"):
        if not release.at_least("2.6"):
            zero = torch.scalar_tensor(0.0, dtype=query.dtype, device=mask.device)
            return _aten.where.ScalarSelf(mask.logical_not(), float("-inf"), zero)  # type: ignore[no-any-return]
        minus = torch.scalar_tensor(float("-inf"), dtype=query.dtype, device=mask.device)
        return _aten.where.ScalarSelf(mask, 0.0, minus)  # type: ignore[no-any-return]
    zeros = torch.zeros_like(mask, dtype=query.dtype)
    return zeros.masked_fill_(mask.logical_not(), float("-inf"))


def _divided(query: Any, key: Any, value: Any, mask: Any, dropout_p: float, is_causal: bool) -> torch.Tensor:
    """The composite of 2.0, which divides both sides by the root of the scale; later ones multiply."""
    root = query.size(-1) ** 0.25
    if is_causal:
        ones = torch.ones((query.size(-2), key.size(-2)), dtype=torch.bool, device=query.device)
        added = torch.zeros_like(ones, dtype=query.dtype)
        mask = added.masked_fill_(ones.tril().logical_not(), float("-inf"))
    weights = torch.matmul(query / root, key.transpose(-2, -1) / root)
    if mask is not None:
        weights = weights.add_(mask)
    weights = torch.softmax(weights, -1)
    if dropout_p > 0.0:
        weights = torch.dropout(weights, dropout_p, True)
    return torch.matmul(weights, value)


def _plain_softmax(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    del plan
    tensor, dim = args[0], args[1]
    dtype = args[2] if len(args) > 2 else kwargs.get("dtype")
    with dispatch:
        return _aten._softmax(tensor if dtype is None else tensor.to(dtype), dim, False)


def _compared_softmax(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The body of 2.5, which finds masked rows by comparing; later ones use ``isneginf``."""
    tensor, dim = args[0], args[1]
    out = _plain_softmax(dispatch, plan, args, kwargs)
    with dispatch:
        masked = tensor.eq(float("-inf")).all(dim=dim, keepdim=True)
        return torch.where(masked, torch.scalar_tensor(0.0, dtype=out.dtype, device=out.device), out)
