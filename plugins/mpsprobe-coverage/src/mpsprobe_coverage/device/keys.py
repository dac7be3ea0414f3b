"""Under which dispatch key an operator is served: MPS, or SparseMPS for those on sparse tensors only."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from mpsprobe_coverage.device.sparse import key_of
from mpsprobe_coverage.device.tensor import VirtualTensor
from mpsprobe_coverage.kernels.table import COMPOSITE_LABELS, MPS, SPARSE, SPARSE_CSR


@lru_cache(maxsize=4096)
def serving_key(operator: str, key: str = MPS) -> str:
    """``SparseMPS`` for an operator whose CPU kernel is for sparse tensors alone, ``MPS`` otherwise.

    ``key`` is that of the backend's dense tensors.

    Which key a call takes depends on its tensors' layout. An operator that has a SparseCPU kernel and neither
    a CPU nor a composite one (``_sparse_coo_tensor_with_dims_and_tensors``, ``_coalesce``) takes the sparse key.
    """
    if not torch._C._dispatch_has_kernel(operator):
        return key
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    dense = any(has(operator, one) for one in ("CPU", *COMPOSITE_LABELS))
    return f"{SPARSE}{key}" if has(operator, "SparseCPU") and not dense else key


def sparse_key(values: Any, dense: str = MPS) -> str | None:
    """The key that a call with these arguments takes because of a sparse one among them; None without any.

    Of several layouts the compressed ones come first, as their keys do in ``c10/core/DispatchKey.h``.
    """
    found = None
    for value in values:
        if type(value) is VirtualTensor:
            key = key_of(value.spec.layout, dense) if value.spec.layout is not torch.strided else None
        else:
            key = sparse_key(value, dense) if isinstance(value, (list, tuple)) else None
        if key is not None and key.startswith(SPARSE_CSR):
            return key
        found = key or found
    return found
