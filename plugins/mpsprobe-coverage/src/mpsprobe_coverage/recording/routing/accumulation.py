"""Where C++ asks for the dtype to accumulate in: ``toAccumulateType`` in ``aten/src/ATen/AccumulateType.h``.

For float32 it is float32 on MPS and float64 on meta and on the CPU. Established from the calls of both its overloads
in the macOS libraries of 1.12.1 to 2.15.0: of the functions that a Mac runs, two give it the device type, and so get
float32: ``_batch_norm_impl_index`` from 2.5 on (for a batch without elements) and ``renorm_backward`` from 2.2 on.
Before, they only asked whether the device is CUDA, made float64 tensors, and MPS refused those.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Plan, Route, composite_route
from mpsprobe_coverage.recording.routing.older_releases import as_it_is

_aten = torch.ops.aten
_OF_RENORM_BACKWARD = ("aten::linalg_vector_norm", "aten::sum.dim_IntList")
_current_node = torch._C._current_autograd_node


def routes(table: KernelTable) -> list[Route]:
    """The same in every release: they ask for its version where it matters."""
    del table
    renorm = [Route(name, _in_float32) for name in _OF_RENORM_BACKWARD]
    return [composite_route("aten::_batch_norm_impl_index", batch_norm), *renorm]


def batch_norm(dispatch: Dispatch, tensor: torch.Tensor, *args: Any) -> Any:
    """Arguments of ``_batch_norm_impl_index``; statistics of a batch without elements are float32."""
    run = _aten._batch_norm_impl_index.default
    if tensor.numel() or not dispatch.release.at_least("2.5"):
        return run._op_dk(DispatchKey.CompositeImplicitAutograd, tensor, *args)
    with dispatch.replacing_dtypes({torch.float64: torch.float32}):
        return run._op_dk(DispatchKey.CompositeImplicitAutograd, tensor, *args)


def _in_float32(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The two calls of ``renorm_backward`` that name the dtype; that of the others follows."""
    if kwargs.get("dtype") is torch.float64 and args[0].dtype is torch.float32:
        node = _current_node()
        if node is not None and node.name().startswith("RenormBackward") and dispatch.release.at_least("2.2"):
            kwargs = {**kwargs, "dtype": torch.float32}
    return as_it_is(dispatch, plan, args, kwargs)
