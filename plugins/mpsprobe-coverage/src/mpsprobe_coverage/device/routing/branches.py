"""Composite operators whose C++ takes another way on MPS, or another way for Python tensors than for real ones.

- ``one_hot`` (``Onehot.cpp``) compares with ``arange`` for tensors that carry the Python key, as virtual ones
  do; on a Mac it scatters into zeros, after reading the largest class where none was given.
- ``kl_div`` (``Loss.cpp``) avoids ``xlogy`` on MPS in 1.13 to 2.0.
- ``_linalg_check_errors`` (``BatchLinearAlgebra.cpp``) looks at nothing on meta; on a Mac it reads ``infos.any()``.
- ``tensor_split`` (``TensorShape.cpp``, every release) refuses indices that are not on the CPU. Here it goes on, so
  that what follows is judged too.
- ``linalg_pinv`` and ``linalg_matrix_rank`` (``LinearAlgebra.cpp``) make their tolerances in float64, on MPS in
  float32 from 2.3 on.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.routing.route import Route, at_least, composite_route
from mpsprobe_coverage.device.tensor import VirtualTensor, spec_of
from mpsprobe_coverage.kernels.table import KernelTable

if TYPE_CHECKING:
    from mpsprobe_coverage.device.interception import Interception
    from mpsprobe_coverage.device.plan import Plan

_aten = torch.ops.aten
_IMPLICIT = DispatchKey.CompositeImplicitAutograd
_SPLIT = "aten::tensor_split.tensor_indices_or_sections"
SPLIT_ON_MPS = Refusal(
    "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on mps:0",
    evidence="tensor_split expected tensor_indices_or_sections to be on cpu, but it's on ",
)
_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


def routes(table: KernelTable) -> list[Route]:
    """Those that the release of ``table`` needs."""
    found = [composite_route("aten::one_hot", one_hot), Route("aten::_linalg_check_errors", _check_errors)]
    found.append(composite_route(_SPLIT, tensor_split))
    if at_least(table, "1.13") and not at_least(table, "2.1"):
        found.append(composite_route("aten::kl_div", kl_div))
    if at_least(table, "2.3"):
        for packet in (_aten.linalg_pinv, _aten.linalg_matrix_rank):
            overloads = [getattr(packet, name) for name in packet.overloads() if "out" not in name]
            found += [_float32_tolerances(func) for func in overloads]
    return found


def one_hot(interception: Interception, tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """``tensor`` (…) of classes as (…, num_classes)."""
    del interception
    if num_classes == -1:
        num_classes = int(tensor.max().item()) + 1
    made = torch.zeros((*tensor.shape, num_classes), dtype=tensor.dtype, device=tensor.device)
    return made.scatter_(-1, tensor.unsqueeze(-1), 1)


def tensor_split(interception: Interception, tensor: torch.Tensor, places: torch.Tensor, dim: int = 0) -> Any:
    """Parts of ``tensor`` along ``dim``, divided before each of ``places`` (n), or into ``places`` () parts."""
    real = places
    if type(places) is VirtualTensor:
        real = interception.values.known_or_assumed(places, _SPLIT, "ones", fill=1)
    recorder = interception.recorder
    phase, recorder.phase = recorder.phase, None
    try:
        parts = _aten.tensor_split.tensor_indices_or_sections._op_dk(_IMPLICIT, tensor, real, dim)
    finally:
        recorder.phase = phase
    if phase is not None and real is not places:
        outputs = tuple(spec_of(part) for part in parts)
        interception.record(_SPLIT, "unsupported", SPLIT_ON_MPS, (spec_of(tensor), spec_of(places)), outputs)
    return parts


def _check_errors(interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """No matrix is singular here: the values of ``infos`` are not known, and an error would be the user's."""
    del plan, kwargs
    with interception:
        failed = args[0].any()
    if interception.recorder.phase is not None:
        read = interception.plan_of(_aten._local_scalar_dense.default)
        interception.record(read.name, read.verdict, read.reason, (spec_of(failed),), ())


def kl_div(
    interception: Interception,
    tensor: torch.Tensor,
    target: torch.Tensor,
    reduction: int = 1,
    *,
    log_target: bool = False,
) -> torch.Tensor:
    """Shapes as ``torch.nn.functional.kl_div`` has them; ``reduction`` as ATen numbers it."""
    del interception
    if log_target:
        output = target.exp() * (target - tensor)
    else:
        output = target * (target.log() - tensor)
        output = torch.where(target > 0, output, torch.zeros_like(output))
    kind = _REDUCTIONS.get(reduction, "none")
    return output.mean() if kind == "mean" else output.sum() if kind == "sum" else output


def _float32_tolerances(func: Any) -> Route:
    """Above autograd for an overload that is composite there, below it for one with a derivative of its own."""
    name = func._schema.name + ("" if func._overloadname == "default" else f".{func._overloadname}")
    implicit = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    key = _IMPLICIT if implicit else DispatchKey.CompositeExplicitAutogradNonFunctional

    def run(interception: Interception, *args: Any, **kwargs: Any) -> Any:
        before = interception.factory_dtypes
        interception.factory_dtypes = {torch.float64: torch.float32}
        try:
            return func._op_dk(key, *args, **kwargs)
        finally:
            interception.factory_dtypes = before

    route = composite_route(name, run)
    return route if implicit else dataclasses.replace(route, above_autograd=None)
