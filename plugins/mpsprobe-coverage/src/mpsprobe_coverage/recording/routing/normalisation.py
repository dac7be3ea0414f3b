"""``rms_norm`` and ``dropout``: composite operators that ask for the device type above autograd.

``rms_norm`` (``aten/src/ATen/native/layer_norm.cpp``) calls ``_fused_rms_norm`` on MPS only with a weight and
without gradients (2.8.0 on), and is otherwise made of its pieces; other devices call the fused operator
always. ``dropout`` (``Dropout.cpp``) uses ``native_dropout`` on MPS from 2.15.0 on, although the kernel is
there since 2.9.0. Established by disassembling both in the macOS libraries.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Plan, Route, composite_route

_aten = torch.ops.aten
_FUSED = "aten::_fused_rms_norm"


def routes(table: KernelTable) -> list[Route]:
    """``rms_norm`` always; ``dropout`` from the release on that chooses the fused kernel."""
    needed = []
    if not table.at_least("2.0"):
        needed.append(Route("aten::native_group_norm", _group_norm, only_without_kernel=True))
    if hasattr(_aten, "rms_norm"):
        needed.append(composite_route("aten::rms_norm", rms_norm))
    if table.at_least("2.15"):
        needed.append(composite_route("aten::dropout", dropout))
    return needed


def rms_norm(
    dispatch: Dispatch,
    tensor: torch.Tensor,
    normalized_shape: list[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> Any:
    """Shapes as ``torch.nn.functional.rms_norm`` has them."""
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
    """Shapes as ``torch.nn.functional.dropout`` has them."""
    del dispatch
    if train and 0 < p < 1 and tensor.numel() and tensor.is_floating_point() and _is_dense(tensor):
        return _aten.native_dropout(tensor, p, True)[0]
    return _aten.dropout.default._op_dk(DispatchKey.CompositeImplicitAutograd, tensor, p, train)


def _group_norm(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``math_group_norm`` (``group_norm.cpp``), the composite kernel of releases before 2.0."""
    del plan, kwargs
    tensor, weight, bias, n, c, hxw, groups, eps = args
    del c, hxw
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
