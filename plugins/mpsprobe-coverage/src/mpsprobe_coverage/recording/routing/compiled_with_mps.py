"""Operators whose C++ takes another way inside ``#ifdef USE_MPS``: attention, convolutions, norms, dropout and LSTM.

How each way was established stands above it; libraries are those of macOS, disassembled, from 1.12 to 2.15.0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Plan, Release, Route, composite_route

_aten = torch.ops.aten
_FOR_MPS = "aten::_scaled_dot_product_attention_math_for_mps"
OF_THE_QUERY = (
    "the result of scaled_dot_product_attention has the batch of the query on MPS before torch 2.15.0, also where "
    "that is smaller than the batch of the keys; on the CPU it has the larger one"
)
_INT_MAX = (1 << 31) - 1
_PLACES = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
_FUSED = "aten::_fused_rms_norm"


def routes(table: KernelTable) -> list[Route]:
    needed = [
        composite_route("aten::scaled_dot_product_attention", scaled_dot_product_attention),
        Route("aten::convolution", _convolution),
        Route("aten::_convolution", _convolution),
        Route("aten::convolution_backward", _convolution_backward),
        composite_route("aten::lstm.input", lstm),
    ]
    if not table.at_least("2.5"):  # it has no ``_safe_softmax`` yet
        needed.append(Route("aten::_safe_softmax", _plain_softmax))
    elif not table.at_least("2.6"):
        needed.append(Route("aten::_safe_softmax", _compared_softmax))
    if not table.at_least("2.0"):
        needed.append(Route("aten::native_group_norm", _group_norm, only_without_kernel=True))
    if hasattr(_aten, "rms_norm"):
        needed.append(composite_route("aten::rms_norm", rms_norm))
    if table.at_least("2.15"):
        needed.append(composite_route("aten::dropout", dropout))
    return needed


# Attention (`transformers/attention.cpp`) asks `query.device().type() == kMPS`. In every release from 2.0.0 no fused
# form is ever chosen for MPS (`_fused_sdp_choice` has no MPS kernel); without gradients the operator
# `_scaled_dot_product_attention_math_for_mps` is called from 2.5.0 on, otherwise the composite
# `_scaled_dot_product_attention_math`. From 2.15.0 on its kernel begins by expanding all three to one batch.
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
    batch = torch.broadcast_shapes(*(tensor.shape[:-3] for tensor in (query, key, value)))
    if any(tensor.shape[:-3] != batch for tensor in (query, key, value)):
        if release.at_least("2.15") or dispatch.sizes_of_cpu:
            query, key, value = (tensor.expand(*batch, *tensor.shape[-3:]) for tensor in (query, key, value))
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


# `select_conv_backend` (`Convolution.cpp`) asks `input.is_mps()`. Every convolution of one, two or three dimensions,
# depthwise and dilated ones included, ends in one of four operators, or, where one entry of the batch is too large, in
# one that only raises. From `_convolution`, `convolution_backward`, `_select_conv_backend` and `ConvParams::use_mps`,
# and the refusals in the kernels' own strings.
def _convolution(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    bound = plan.bound(args, kwargs)
    tensor, weight, bias = bound["input"], bound["weight"], bound["bias"]
    transposed = bound["transposed"]
    if not _takes_mps(dispatch.release, tensor, weight, bound):
        target = dispatch.plan_of(_aten.convolution_overrideable.default)
        return dispatch.leaf(target, (tensor, weight, bias, *(bound[name] for name in _PLACES)), {})
    if not tensor.is_contiguous() and (transposed or not dispatch.release.at_least("2.2")):
        with dispatch:
            tensor = tensor.contiguous()
    places = (bound["stride"], bound["dilation"], bound["groups"])
    if not transposed:
        target = dispatch.plan_of(_aten._mps_convolution.default)
        return dispatch.leaf(target, (tensor, weight, bias, bound["padding"], *places), {})
    target = dispatch.plan_of(_aten._mps_convolution_transpose.default)
    arguments = (tensor, weight, bound["padding"], bound["output_padding"], *places)
    result = dispatch.leaf(target, arguments, {})
    if bias is not None:
        with dispatch:
            shape = [1, -1] + [1] * (weight.dim() - 2)
            result = result.add_(bias.reshape(shape))
    return result


def _convolution_backward(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    bound = plan.bound(args, kwargs)
    grad, tensor, weight, mask = bound["grad_output"], bound["input"], bound["weight"], list(bound["output_mask"])
    transposed = bound["transposed"]
    if not _takes_mps(dispatch.release, tensor, weight, bound):
        target = dispatch.plan_of(_aten.convolution_backward_overrideable.default)
        return dispatch.leaf(target, (grad, tensor, weight, *(bound[name] for name in _PLACES), mask), {})
    places = (bound["stride"], bound["dilation"], bound["groups"])
    if transposed:
        target = dispatch.plan_of(_aten.mps_convolution_transpose_backward.default)
        padding = (bound["padding"], bound["output_padding"])
        grad_input, grad_weight = dispatch.leaf(target, (tensor, grad, weight, *padding, *places, mask[:2]), {})
    else:
        target = dispatch.plan_of(_aten.mps_convolution_backward.default)
        arguments = (tensor, grad, weight, bound["padding"], *places, mask)
        grad_input, grad_weight, _ = dispatch.leaf(target, arguments, {})
    grad_bias = None
    if mask[2]:
        spatial = range(2, grad.dim())
        with dispatch:
            grad_bias = grad.sum([0, *spatial])
    return grad_input, grad_weight, grad_bias


def _takes_mps(release: Release, tensor: torch.Tensor, weight: torch.Tensor, bound: dict[str, Any]) -> bool:
    """``ConvParams::use_mps``: one entry of the batch, and of the result, is addressed with 32 bits.

    From 2.14.0 on it takes what is larger too if it is of three dimensions and not transposed.
    """
    if tensor.numel() == 0 or not _needs_64_bits(tensor, weight, bound):
        return True
    return release.at_least("2.14") and tensor.dim() == 5 and not bound["transposed"]


def _needs_64_bits(tensor: torch.Tensor, weight: torch.Tensor, bound: dict[str, Any]) -> bool:
    """``ConvParams::needs_64bit_indexing_no_split``: of the entries of a batch, which it can split."""
    if tensor.numel() // tensor.shape[0] > _INT_MAX:
        return True
    kernel = weight.shape[2:]
    stride, padding, dilation, more = (
        _spread(bound[name], len(kernel)) for name in ("stride", "padding", "dilation", "output_padding")
    )
    places = zip(tensor.shape[2:], kernel, stride, padding, dilation, more, strict=True)
    if bound["transposed"]:
        channels = weight.shape[1] * bound["groups"]
        sizes = [(size - 1) * s - 2 * p + (k - 1) * d + o + 1 for size, k, s, p, d, o in places]
    else:
        channels = weight.shape[0]
        sizes = [(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d, _ in places]
    return bool(channels * math.prod(sizes) > _INT_MAX)


def _spread(values: Sequence[int], dimensions: int) -> Sequence[int]:
    return values if len(values) == dimensions else list(values) * dimensions


# `rms_norm` (`layer_norm.cpp`) calls `_fused_rms_norm` on MPS only with a weight and without gradients (2.8.0 on), and
# is otherwise made of its pieces; other devices call the fused operator always. `dropout` (`Dropout.cpp`) uses
# `native_dropout` on MPS from 2.15.0 on, although the kernel is there since 2.9.0.
def rms_norm(
    dispatch: Dispatch,
    tensor: torch.Tensor,
    normalized_shape: list[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> Any:
    release = dispatch.release
    if eps is None:
        eps = torch.finfo(tensor.dtype).eps
    if weight is not None and release.has_kernel(_FUSED) and not _needs_grad(tensor, weight):
        fused = getattr(_aten, "_fused_rms_norm", None)
        if fused is not None:
            by_count = fused.default._schema.arguments[1].type.kind() == "IntType"  # the signature of 2.8
            if by_count:
                return fused(tensor.contiguous(), len(normalized_shape), weight.contiguous(), eps)
            return fused(tensor.contiguous(), normalized_shape, weight, eps)[0]
    half = tensor.dtype in (torch.float16, torch.bfloat16) and release.at_least("2.6")
    wide = tensor.to(torch.float32) if half else tensor
    dims = list(range(tensor.dim() - len(normalized_shape), tensor.dim()))
    scale = wide.pow(2).mean(dims, keepdim=True).add_(eps).rsqrt()
    result = wide.mul(scale).to(tensor.dtype)
    return result if weight is None else result.mul(weight)


def dropout(dispatch: Dispatch, tensor: torch.Tensor, p: float, train: bool) -> Any:
    if train and 0 < p < 1 and tensor.numel() and tensor.is_floating_point() and _is_dense(tensor):
        return _aten.native_dropout(tensor, p, True)[0]
    return _aten.dropout.default._op_dk(DispatchKey.CompositeImplicitAutograd, tensor, p, train)


def _group_norm(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``math_group_norm`` (``group_norm.cpp``), the composite kernel of releases before 2.0."""
    tensor, weight, bias, n, _c, _hxw, groups, eps = args
    with dispatch:
        flat = tensor.reshape(1, n * groups, -1 if n else 1)
        out, mean, rstd = _aten.native_batch_norm(flat, None, None, None, None, True, 0, eps)
        out = out.view(tensor.shape)
        shape = [1, -1] + [1] * (tensor.dim() - 2)
        if weight is not None and bias is not None:
            out = bias.view(shape).addcmul(out, weight.view(shape), value=1)
        elif weight is not None:
            out = out.mul(weight.view(shape))
        elif bias is not None:
            out = out.add(bias.view(shape))
        return out, mean.view([n, groups]), rstd.view([n, groups])


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements lie in memory without gaps or overlaps, in any order of dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _needs_grad(*tensors: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


# `at::native::lstm` (`RNN.cpp`) asks `input.is_mps()` and calls `_lstm_mps`. `gru`, `rnn_tanh`, `rnn_relu` and packed
# sequences have no such branch in any release: what they are made of is judged, with no route.
def lstm(
    dispatch: Dispatch,
    tensor: torch.Tensor,
    hx: list[torch.Tensor],
    params: list[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...]:
    arguments = (tensor, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    if bidirectional and not dispatch.release.at_least("2.1"):
        generic = _aten.lstm.input._op_dk(DispatchKey.CompositeImplicitAutograd, *arguments)
        return tuple(generic)
    return tuple(_aten._lstm_mps(*arguments)[:3])
