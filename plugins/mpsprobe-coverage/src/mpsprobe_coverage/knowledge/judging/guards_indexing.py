"""Guards of indexing, sorting, counting and reductions.

Files are those of aten/src/ATen/native/mps/operations.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import TensorSpec
from mpsprobe_coverage.knowledge.judging.guards import (
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
_ATOMIC_2_8 = frozenset({torch.float16, torch.bfloat16, *_ATOMIC})
_CLAMPS = tuple(f"{name}.Tensor{out}" for name in ("clamp", "clamp_min", "clamp_max") for out in ("", "_out"))
_TOPK_LIMIT, _FFT_AXES, _TOPK_AXES = 16, 4, 4


def _has_elements(*names: str) -> Callable[[Call], bool]:
    """None of these arguments is an empty tensor: with one, these kernels return before they check a dtype."""

    def has_elements(call: Call) -> bool:
        specs = [call.spec(name) for name in names]
        return all(spec is None or spec.numel > 0 for spec in specs)

    return has_elements


_has_indices = _has_elements("index")
_has_places = _has_elements("self", "index")


def _takes_extremes(call: Call) -> bool:
    return call.argument("reduce") in ("amin", "amax") and _has_indices(call)


def _has_many_axes_behind(call: Call) -> bool:
    source, dim = call.spec("self"), call.argument("dim")
    return source is not None and source.numel > 0 and call.argument("k") > 0 and _behind(source, dim) > _TOPK_AXES


def _behind(source: TensorSpec, dim: int) -> int:
    return -dim if dim < 0 else len(source.shape) - dim


def _differ_in_dtype(call: Call) -> bool:
    elements, others = call.spec("elements"), call.spec("test_elements")
    return elements is not None and others is not None and elements.dtype is not others.dtype


def _asks_for_many(call: Call) -> bool:
    return bool(call.argument("k") > _TOPK_LIMIT)


def _transforms_many_axes(call: Call) -> bool:
    return len(call.argument("dim")) > _FFT_AXES


def _accumulates_int64(call: Call) -> bool:
    source = call.spec("self")
    return (call.argument("dtype") or (source and source.dtype)) is torch.int64


def _has_bounds_of_more_axes(call: Call) -> bool:
    source = call.spec("self")
    names = {argument.name for argument in call.func._schema.arguments} & {"min", "max"}
    bounds = [call.spec(name) for name in names]
    return source is not None and any(one is not None and len(one.shape) > len(source.shape) for one in bounds)


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
    Guard(  # of 2.8
        "index_put_accumulate_int64",
        ("_index_put_impl_",),
        Both(Argument("values", other_than(_ATOMIC_2_8)), Value("accumulate", True)),
    ),
    # index_fill_mps_, index_select_out_mps
    Guard("index_fill_complex", ("index_fill",), Both(Argument("self", COMPLEX), _has_places)),
    Guard("index_select_complex", ("index_select",), Both(Argument("self", COMPLEX), _has_places)),
    # Indexing.mm, index_add_mps_out
    Guard("index_add_int64", ("index_add",), Both(Argument("source", LONG), _has_indices)),
    # ScatterGather.mm: scatter_mps_general, gather_out_mps
    Guard("gather_sparse_grad", ("gather",), Value("sparse_grad", True)),
    Guard("gather_complex", ("gather",), Both(Argument("self", COMPLEX), _has_places)),
    Guard(
        "scatter_complex", ("scatter", "scatter_add", "scatter_reduce"), Both(Argument("self", COMPLEX), _has_places)
    ),
    # scatter_reduce_two_mps_kernel
    Guard("scatter_amax_int64", ("scatter_reduce",), Both(Argument("self", LONG), _takes_extremes)),
    # Repeat.mm, repeat_mps; TensorCompare.mm: check_min_max_dims, isin_Tensor_Tensor_out_mps
    Guard("repeat_complex", ("repeat",), Argument("self", COMPLEX)),
    Guard("clamp_more_axes", _CLAMPS, Shape(_has_bounds_of_more_axes)),
    Guard("isin_one_dtype", ("isin.Tensor_Tensor", "isin.Tensor_Tensor_out"), Shape(_differ_in_dtype)),
    # ReduceOps.mm: nansum_out_mps; min_max_out_mps and median_mps of 2.0; from 2.14 on median in Sort.mm
    Guard("nansum_complex", ("nansum",), Argument("self", COMPLEX)),
    Guard("min_max_int64", ("max.dim", "max.dim_max", "min.dim", "min.dim_min"), Argument("self", LONG)),
    Guard("median_int64", ("median",), Argument("self", LONG)),
    Guard("median_dtype", ("median", "nanmedian"), Argument("self", BOOL | COMPLEX)),
    # impl_func_norm_mps, which fills the result where there are no elements
    Guard("norm_complex", ("norm", "linalg_vector_norm"), Both(Argument("self", COMPLEX), _has_elements("self"))),
    # UnaryOps.mm: cumsum_out_mps of 2.0, cumulative_op_impl
    Guard("cumulative_complex", ("cumsum", "cumprod"), Both(Argument("self", COMPLEX), _has_elements("self"))),
    Guard("cumsum_int64", ("cumsum",), Both(Result(LONG), _accumulates_int64)),
    # Sort.mm: kthvalue_out_mps; topk_out_mps of 1.12.1 to 1.13.1, Shape.mm
    Guard("kthvalue_complex", ("kthvalue",), Argument("self", COMPLEX)),
    Guard("kthvalue_dtype", ("kthvalue",), Argument("self", BOOL | COMPLEX)),
    Guard("topk_16", ("topk",), Shape(_asks_for_many)),
    # topk_out_mps and kthvalue_out_mps_impl: the graph would end the process (pytorch#154890)
    Guard("topk_four_axes", ("topk", "kthvalue"), Shape(_has_many_axes_behind)),
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
