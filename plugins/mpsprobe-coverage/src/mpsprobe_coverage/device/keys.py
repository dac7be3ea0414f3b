"""Under which dispatch key an operator is served on MPS: MPS, or SparseMPS for those on sparse tensors only."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from mpsprobe_coverage.device.sparse import SPARSE_CSR_MPS, SPARSE_MPS, key_of
from mpsprobe_coverage.device.tensor import VirtualTensor
from mpsprobe_coverage.kernels.table import COMPOSITE_LABELS, MPS


@lru_cache(maxsize=4096)
def serving_key(operator: str) -> str:
    """``SparseMPS`` for an operator whose CPU kernel is for sparse tensors alone, ``MPS`` otherwise.

    Which key a call takes depends on its tensors' layout. An operator that has a SparseCPU kernel and neither
    a CPU nor a composite one (``_sparse_coo_tensor_with_dims_and_tensors``, ``_coalesce``) takes the sparse key.
    """
    if not torch._C._dispatch_has_kernel(operator):
        return MPS
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    dense = any(has(operator, key) for key in ("CPU", *COMPOSITE_LABELS))
    return SPARSE_MPS if has(operator, "SparseCPU") and not dense else MPS


def sparse_key(values: Any) -> str | None:
    """The key that a call with these arguments takes because of a sparse one among them; None without any.

    Of several layouts the compressed ones come first, as their keys do in ``c10/core/DispatchKey.h``.
    """
    found = None
    for value in values:
        if type(value) is VirtualTensor:
            key = key_of(value.spec.layout) if value.spec.layout is not torch.strided else None
        else:
            key = sparse_key(value) if isinstance(value, (list, tuple)) else None
        if key == SPARSE_CSR_MPS:
            return key
        found = key or found
    return found
