"""Guards of indexing, sorting, counting and reductions.

Files are those of aten/src/ATen/native/mps/operations.
"""

from __future__ import annotations

import torch

from mpsprobe_coverage.calls.call import Call
from mpsprobe_coverage.judging.guards import (
    BOOL,
    COMPLEX,
    LONG,
    Argument,
    Both,
    Guard,
    Result,
    Shape,
    Value,
    other_than,
)

_UNSIGNED = frozenset({torch.uint16, torch.uint32, torch.uint64})
_ATOMIC = frozenset({torch.float32, torch.int32, torch.bool})
_TOPK_LIMIT, _FFT_AXES = 16, 4


def _has_indices(call: Call) -> bool:
    index = call.spec("index")
    return index is None or index.numel > 0


def _asks_for_many(call: Call) -> bool:
    return bool(call.argument("k") > _TOPK_LIMIT)


def _transforms_many_axes(call: Call) -> bool:
    return len(call.argument("dim")) > _FFT_AXES


def _accumulates_int64(call: Call) -> bool:
    source = call.spec("self")
    return (call.argument("dtype") or (source and source.dtype)) is torch.int64


GUARDS: tuple[Guard, ...] = (
    # Indexing.mm, index_reduce_mps_out
    Guard("index_reduce_int64", ("index_reduce",), Argument("self", LONG)),
    Guard("index_reduce_complex64", ("index_reduce",), Argument("self", frozenset({torch.complex64}))),
    # Indexing.mm: validateInputData, which lets every whole number and truth value pass where nothing is accumulated
    Guard(
        "index_put_accumulate_dtype",
        ("_index_put_impl_",),
        Both(Argument("values", other_than(_ATOMIC)), Value("accumulate", True)),
    ),
    # Indexing.mm, index_add_mps_out
    Guard("index_add_int64", ("index_add",), Both(Argument("source", LONG), _has_indices)),
    # ScatterGather.mm: scatter_mps_general, gather_out_mps
    Guard("scatter_mean", ("scatter_reduce",), Value("reduce", "mean")),
    Guard("gather_sparse_grad", ("gather",), Value("sparse_grad", True)),
    # ReduceOps.mm: nansum_out_mps; min_max_out_mps and median_mps of 2.0; from 2.14 on median in Sort.mm
    Guard("nansum_complex", ("nansum",), Argument("self", COMPLEX)),
    Guard("min_max_int64", ("max.dim", "max.dim_max", "min.dim", "min.dim_min"), Argument("self", LONG)),
    Guard("median_int64", ("median",), Argument("self", LONG)),
    Guard("median_dtype", ("median", "nanmedian"), Argument("self", BOOL | COMPLEX)),
    # UnaryOps.mm, cumsum_out_mps of 2.0
    Guard("cumsum_int64", ("cumsum",), Both(Result(LONG), _accumulates_int64)),
    # Sort.mm: kthvalue_out_mps; topk_out_mps of 1.12.1 to 1.13.1, Shape.mm
    Guard("kthvalue_complex", ("kthvalue",), Argument("self", COMPLEX)),
    Guard("kthvalue_dtype", ("kthvalue",), Argument("self", BOOL | COMPLEX)),
    Guard("topk_16", ("topk",), Shape(_asks_for_many)),
    # Unique.mm, _unique_impl_mps
    Guard(
        "unique_dtype",
        ("_unique", "_unique2", "unique_consecutive", "unique_dim_consecutive"),
        Argument("self", COMPLEX | _UNSIGNED),
    ),
    # SummaryOps.mm, _bincount_mps; HistogramKernel.mm, histogramdd_linear_kernel
    Guard("histc_dtype", ("histc",), Argument("self", BOOL | COMPLEX)),
    Guard("bincount_bool", ("bincount",), Argument("self", BOOL)),
    Guard(
        "histogram_float32_only",
        ("histogram.bin_ct", "histogram.bin_ct_out"),
        Argument("self", other_than(frozenset({torch.float32}))),
    ),
    # FastFourierTransform.mm: _fft_r2c_mps_out, computeFFTAxisPlan
    Guard(
        "fft_r2c_float_and_half", ("_fft_r2c",), Argument("self", other_than(frozenset({torch.float32, torch.float16})))
    ),
    Guard("fft_4_axes", ("_fft_r2c", "_fft_c2r", "_fft_c2c"), Shape(_transforms_many_axes)),
)
