"""Sparse tensors without data: what of one has to be known to make another like it, and its dispatch key.

A virtual tensor of a sparse layout wraps a sparse meta tensor, so that its keys are SparseMPS or SparseCsrMPS. How many
elements are specified (nnz) is known of tensors that were moved to the device; of results it is what the meta kernel
or the CPU kernel on zeros says, mostly none.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from mpsprobe_coverage.knowledge.kernels.table import SPARSE, SPARSE_CSR

_ROWS = (torch.sparse_csr, torch.sparse_bsr)
_BLOCKS = (torch.sparse_bsr, torch.sparse_bsc)

Form = tuple[Any, ...]


def key_of(layout: torch.layout, key: str) -> str:
    """The dispatch key that a tensor of a sparse ``layout`` has on the backend whose dense ones have ``key``."""
    return f"{SPARSE if layout is torch.sparse_coo else SPARSE_CSR}{key}"


def form_of(tensor: torch.Tensor) -> Form:
    """What ``empty`` needs in addition to shape and dtype.

    For COO (sparse dims, nnz, coalesced); for compressed layouts (dense dims, nnz of a batch, block size, index dtype).
    """
    if tensor.layout is torch.sparse_coo:
        return tensor.sparse_dim(), tensor._nnz(), tensor.is_coalesced()
    values = tensor.values()
    batch = tensor.dim() - 2 - tensor.dense_dim()
    block = tuple(values.shape[batch + 1 : batch + 3]) if tensor.layout in _BLOCKS else ()
    indices = tensor.crow_indices() if tensor.layout in _ROWS else tensor.ccol_indices()
    return tensor.dense_dim(), tensor._nnz(), block, indices.dtype


def stored(shape: tuple[int, ...], layout: torch.layout, form: Form) -> int:
    """How many elements a tensor of this form holds."""
    if layout is torch.sparse_coo:
        sparse_dim, nnz, _ = form
        return int(nnz * math.prod(shape[sparse_dim:]))
    dense_dim, nnz, block, _ = form
    batch = len(shape) - 2 - dense_dim
    return int(nnz * math.prod(block) * math.prod(shape[:batch]) * math.prod(shape[batch + 2 :]))


def empty(
    shape: tuple[int, ...], dtype: torch.dtype, layout: torch.layout, form: Form, device: torch.device
) -> torch.Tensor:
    """A tensor of this form, with zeros at the first places on the CPU, so that its indices are valid."""
    if layout is torch.sparse_coo:
        sparse_dim, nnz, coalesced = form
        indices = _first_places(shape[:sparse_dim], nnz, device)
        values = torch.zeros((nnz, *shape[sparse_dim:]), dtype=dtype, device=device)
        return torch.sparse_coo_tensor(indices, values, shape, is_coalesced=coalesced, check_invariants=False)
    dense_dim, nnz, block, index_dtype = form
    batch = len(shape) - 2 - dense_dim
    rows, columns = shape[batch] // (block or (1, 1))[0], shape[batch + 1] // (block or (1, 1))[1]
    lines, width = (rows, columns) if layout in _ROWS else (columns, rows)
    lead = shape[:batch]
    starts = torch.arange(lines + 1, dtype=index_dtype, device=device).mul(width).clamp(max=nnz)
    places = torch.arange(nnz, dtype=index_dtype, device=device).remainder(max(width, 1))
    return torch.sparse_compressed_tensor(
        starts.expand(*lead, lines + 1).contiguous(),
        places.expand(*lead, nnz).contiguous(),
        torch.zeros((*lead, nnz, *block, *shape[batch + 2 :]), dtype=dtype, device=device),
        shape,
        layout=layout,
        check_invariants=False,
    )


def _first_places(shape: tuple[int, ...], count: int, device: torch.device) -> torch.Tensor:
    """Indices (dims, count) of the first places in row-major order; from the beginning again where there are fewer."""
    rest = torch.arange(count, dtype=torch.int64, device=device)
    places = []
    for size in reversed(shape):
        places.append(rest.remainder(max(size, 1)))
        rest = rest.div(max(size, 1), rounding_mode="floor")
    return torch.stack(places[::-1]) if places else torch.zeros((0, count), dtype=torch.int64, device=device)
