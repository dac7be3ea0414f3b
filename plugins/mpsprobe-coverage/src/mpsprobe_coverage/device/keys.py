"""Under which dispatch key an operator is served on MPS: MPS, or SparseMPS for those on sparse tensors only."""

from __future__ import annotations

from functools import lru_cache

import torch

from mpsprobe_coverage.kernels.table import COMPOSITE_LABELS, MPS

SPARSE_MPS = "SparseMPS"


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
