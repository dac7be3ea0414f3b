"""Under which dispatch key an operator is served: MPS, or SparseMPS for those on sparse tensors only."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import torch

from mpsprobe_coverage.knowledge.calls.sparse import key_of
from mpsprobe_coverage.knowledge.kernels.table import COMPOSITE_LABELS, IMPLICIT, MPS, SPARSE, SPARSE_CSR


def operator_name(func: Any) -> str:
    """``aten::abs.out``; ``aten::abs`` for the default overload, as PyTorch's error messages print it."""
    name: str = func._schema.name
    overload = func._overloadname
    return name if overload == "default" else f"{name}.{overload}"


def overload_named(operator: str) -> Any:
    """The overload of the installed torch that ``operator_name`` calls so; it must be there."""
    namespace, _, name = operator.partition("::")
    packet, _, overload = name.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def has_kernel(operator: str, key: str) -> bool:
    """Whether the installed torch has the operator, with a kernel under the dispatch key ``key``."""
    known = torch._C._dispatch_has_kernel(operator)
    return bool(known and torch._C._dispatch_has_kernel_for_dispatch_key(operator, key))


def is_implicit(operator: str) -> bool:
    """Whether it is made of others, above autograd."""
    return _is_implicit_in_aten(operator) if operator.startswith("aten::") else has_kernel(operator, IMPLICIT)


@cache
def _is_implicit_in_aten(operator: str) -> bool:
    return has_kernel(operator, IMPLICIT)


def has_cpu_kernel(operator: str) -> bool:
    """Whether the installed torch can run it on dense tensors of the CPU."""
    return any(has_kernel(operator, key) for key in ("CPU", *COMPOSITE_LABELS))


@lru_cache(maxsize=4096)
def serving_key(operator: str, key: str = MPS) -> str:
    """``SparseMPS`` for an operator whose CPU kernel is for sparse tensors alone, ``MPS`` otherwise.

    ``key`` is that of the backend's dense tensors.

    Which key a call takes depends on its tensors' layout. An operator that has a SparseCPU kernel and neither
    a CPU nor a composite one (``_sparse_coo_tensor_with_dims_and_tensors``, ``_coalesce``) takes the sparse key.
    """
    return f"{SPARSE}{key}" if has_kernel(operator, "SparseCPU") and not has_cpu_kernel(operator) else key


def sparse_key(values: Any, dense: str = MPS) -> str | None:
    """The key that a call with these arguments takes because of a sparse one among them; None without any.

    Of several layouts the compressed ones come first, as their keys do in ``c10/core/DispatchKey.h``.
    """
    coordinate = None
    for value in values:
        if isinstance(value, torch.Tensor):
            key = key_of(value.layout, dense) if value.layout is not torch.strided else None
        else:
            key = sparse_key(value, dense) if isinstance(value, (list, tuple)) else None
        if key is not None and key.startswith(SPARSE_CSR):
            return key
        coordinate = key or coordinate
    return coordinate
