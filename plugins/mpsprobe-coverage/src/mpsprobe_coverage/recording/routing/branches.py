"""Composite operators whose C++ takes another way on MPS, or another way for Python tensors than for real ones.

- ``one_hot`` (``Onehot.cpp``) compares with ``arange`` for tensors that carry the Python key, as virtual ones
  do; on a Mac it scatters into zeros, after reading the largest class where none was given.
- ``kl_div`` (``Loss.cpp``) avoids ``xlogy`` on MPS in 1.13 to 2.0.
- ``_linalg_check_errors`` (``BatchLinearAlgebra.cpp``) looks at nothing on meta; on a Mac it reads ``infos.any()``.
- ``tensor_split`` (``TensorShape.cpp``, every release) refuses indices that are not on the CPU. Here it goes on, so
  that what follows is judged too.
- ``linalg_pinv`` and ``linalg_matrix_rank`` (``LinearAlgebra.cpp``) make their tolerances in float64, on MPS in
  float32 from 2.3 on.
- ``tensordot`` (``Linear.cpp``), and ``inner`` through it, multiplies matrices on MPS. Elsewhere it calls ``dot``, or
  ``mul`` and ``sum``, where all dimensions are contracted (since 2.8; disassembled in 2.8.0, 2.13.0 and 2.15.0).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.knowledge.calls.keys import is_implicit, operator_name
from mpsprobe_coverage.knowledge.calls.spec import has_no_data, spec_of
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Plan, Route, composite_route

_aten = torch.ops.aten
_IMPLICIT = DispatchKey.CompositeImplicitAutograd
_SPLIT = _aten.tensor_split.tensor_indices_or_sections
_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


def routes(table: KernelTable) -> list[Route]:
    """Those that the release of ``table`` needs."""
    needed = [composite_route("aten::one_hot", one_hot), Route("aten::_linalg_check_errors", _check_errors)]
    needed.append(composite_route(operator_name(_SPLIT), tensor_split))
    needed.append(composite_route("aten::tensordot", tensordot))
    if table.at_least("1.13") and not table.at_least("2.1"):
        needed.append(composite_route("aten::kl_div", kl_div))
    if table.at_least("2.3"):
        for packet in (_aten.linalg_pinv, _aten.linalg_matrix_rank):
            overloads = [getattr(packet, name) for name in packet.overloads() if "out" not in name]
            needed += [_float32_tolerances(func) for func in overloads]
    return needed


def one_hot(dispatch: Dispatch, tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """``tensor`` (…) of classes as (…, num_classes)."""
    del dispatch
    if tensor.dtype is not torch.int64:
        return _aten.one_hot.default._op_dk(_IMPLICIT, tensor, num_classes)  # type: ignore[no-any-return]  # it says why
    if num_classes == -1:
        num_classes = int(tensor.max().item()) + 1
    classes = torch.zeros((*tensor.shape, num_classes), dtype=tensor.dtype, device=tensor.device)
    return classes.scatter_(-1, tensor.unsqueeze(-1), 1)


def tensordot(
    dispatch: Dispatch, first: torch.Tensor, second: torch.Tensor, dims_first: list[int], dims_second: list[int]
) -> torch.Tensor:
    """Shapes as ``torch.tensordot`` has them."""
    del dispatch
    pairs = [(one % first.dim(), other % second.dim()) for one, other in zip(dims_first, dims_second, strict=True)]
    left, right = first, second
    for one, other in pairs:
        if second.shape[other] == 1:
            left = left.sum([one], True, dtype=left.dtype)
        elif first.shape[one] == 1:
            right = right.sum([other], True, dtype=right.dtype)
    contracted = [one for one, _ in pairs], [other for _, other in pairs]
    kept = [[at for at in range(t.dim()) if at not in c] for t, c in zip((first, second), contracted, strict=True)]
    sizes = [[t.shape[at] for at in dims] for t, dims in zip((first, second), kept, strict=True)]
    size = math.prod(left.shape[at] for at in contracted[0])
    left = left.permute(kept[0] + contracted[0]).reshape(math.prod(sizes[0]), size)
    right = right.permute(contracted[1] + kept[1]).reshape(size, math.prod(sizes[1]))
    return left.mm(right).reshape(sizes[0] + sizes[1])


def tensor_split(dispatch: Dispatch, tensor: torch.Tensor, places: torch.Tensor, dim: int = 0) -> Any:
    """Parts of ``tensor`` along ``dim``, divided before each of ``places`` (n), or into ``places`` () parts."""
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
    del plan, kwargs
    with dispatch:
        failed = args[0].any()
    dispatch.record(dispatch.plan_of(_aten._local_scalar_dense.default), (failed,), {}, (spec_of(failed),), ())


def kl_div(
    dispatch: Dispatch, tensor: torch.Tensor, target: torch.Tensor, reduction: int = 1, *, log_target: bool = False
) -> torch.Tensor:
    """Shapes as ``torch.nn.functional.kl_div`` has them; ``reduction`` as ATen numbers it."""
    del dispatch
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
        with dispatch.replacing_dtypes({torch.float64: torch.float32}):
            return func._op_dk(key, *args, **kwargs)

    route = composite_route(name, run)
    return route if implicit else dataclasses.replace(route, above_autograd=None)
