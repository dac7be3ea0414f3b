"""What kernels say when they raise: the guard messages in each release's library.

Each check was read in the machine code of the function that refers to the message, in macOS libraries from 1.12.1 to
2.15.0, and compared with PyTorch's source of a near commit, whose file (of aten/src/ATen/native/mps/operations) and
function a comment names. A message whose check could not be established has no guard;
``docs/explanation/verdicts.md`` lists those. Only messages that no kernel for another backend raises with are there:
the library holds the CPU's too. Sizes are in ``size.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import is_contiguous
from mpsprobe_coverage.knowledge.judging.conditions import (
    BOOL,
    COMPLEX,
    DTYPES,
    FLOATING,
    INTEGRAL,
    LONG,
    Condition,
    Conditions,
    Dtypes,
)
from mpsprobe_coverage.knowledge.kernels.markers import MARKER_STRINGS

RESULT = ""
_HALF, _BFLOAT16, _FLOAT32, _COMPLEX64 = (
    frozenset({dtype}) for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.complex64)
)
_UNSIGNED = frozenset({torch.uint16, torch.uint32, torch.uint64})
_HISTOGRAMS = "histogram _histogramdd_from_bin_cts _histogramdd_from_bin_tensors"
_LOWEST = torch.iinfo(torch.int64).min
_ATOMIC = _FLOAT32 | {torch.int32, torch.bool}


def guard(
    marker: str,
    operators: str,
    dtypes: Dtypes | None = None,
    argument: str = "self",
    *,
    when: Callable[[Call], bool] | None = None,
    first: str = "1.12.0",
    before: str | None = None,
) -> Condition:
    """A check of a kernel, in the releases whose library has the message ``marker``.

    Args:
        operators: see ``Condition``; names with an overload mean that one.
        dtypes: those that raise, of the tensor ``argument`` or of the tensors in that list; of the first result for
            ``RESULT``, which for kernels by element has the dtype that they compute in.
        when: what must hold besides.
        first, before: where the message, in other releases, is that of another check.
    """
    message = MARKER_STRINGS[marker][0]

    def why(call: Call) -> str | None:
        if dtypes is not None and not _has_dtype(call, argument, dtypes):
            return None
        return message if when is None or when(call) else None

    return Condition(operators, why, message, first, before, marker, dtypes=dtypes, only_dtypes=when is None)


def _has_dtype(call: Call, argument: str, dtypes: Dtypes) -> bool:
    if argument == RESULT:
        return bool(call.outputs) and call.outputs[0].dtype in dtypes
    value = call.argument(argument)
    values = value if isinstance(value, (list, tuple)) else (value,)
    return any(isinstance(tensor, torch.Tensor) and tensor.dtype in dtypes for tensor in values)


def sentence(message: str, operator: str) -> str:
    """What a message says that PyTorch writes behind the operator's name, or goes on with a number."""
    text, name = message.strip(" ,"), operator.removeprefix("aten::").partition(".")[0]
    if text.startswith((":", "()")):
        text = name + text if text[0] == ":" else f"'{name}{text}"
    if text.rfind("(") > text.rfind(")"):
        text = text[: text.rfind("(")].rstrip()
    return f"{text} …" if text.endswith("=") else text


def _but(*dtypes: Dtypes) -> Dtypes:
    return DTYPES.difference(*dtypes)


def _is(name: str, value: bool | int) -> Callable[[Call], bool]:
    return lambda call: bool(call.argument(name) == value)


def _has_elements(*names: str) -> Callable[[Call], bool]:
    """None of these arguments is an empty tensor: with one, these kernels return before they check a dtype."""
    return lambda call: all(spec is None or spec.numel > 0 for spec in map(call.spec, names))


_has_indices = _has_elements("index")
_has_places = _has_elements("self", "index")


def _takes_extremes(call: Call) -> bool:
    return call.argument("reduce") in ("amin", "amax") and _has_indices(call)


def _writes_extremes_with_gaps(call: Call) -> bool:
    return _takes_extremes(call) and _has_places(call) and not is_contiguous(call.outputs[0])


def _has_strided_weight(call: Call) -> bool:
    weight = call.spec("weight")
    return weight is not None and len(weight.shape) == 1 and not is_contiguous(weight)


def _draws_from_all_int64(call: Call) -> bool:
    return bool(call.argument("from") == _LOWEST) and call.argument("to") is None


def _has_many_axes_behind(call: Call) -> bool:
    source, dim = call.spec("self"), call.argument("dim")
    if source is None or not source.numel or call.argument("k") <= 0:
        return False
    return bool((-dim if dim < 0 else len(source.shape) - dim) > 4)


def _differ_in_dtype(call: Call) -> bool:
    elements, others = call.spec("elements"), call.spec("test_elements")
    return elements is not None and others is not None and elements.dtype is not others.dtype


def _accumulates_int64(call: Call) -> bool:
    source = call.spec("self")
    return (call.argument("dtype") or (source and source.dtype)) is torch.int64


def _has_bounds_of_more_axes(call: Call) -> bool:
    source = call.spec("self")
    names = {argument.name for argument in call.func._schema.arguments} & {"min", "max"}
    bounds = map(call.spec, names)
    return source is not None and any(bound is not None and len(bound.shape) > len(source.shape) for bound in bounds)


def _does_not_fit_tiles(call: Call) -> bool:
    weight = call.spec("mat2")
    return weight is not None and any(size % 32 for size in weight.shape)


def _truncates(call: Call) -> bool:
    names = [argument.name for argument in call.func._schema.arguments]
    return "rounding_mode" in names and call.argument("rounding_mode") == "trunc"


_NOT_FLOAT32, _NOT_SINGLE = _but(_FLOAT32), _but(_FLOAT32, _COMPLEX64)
_WITH_LU_FACTOR = "linalg_lu_factor linalg_lu_factor_ex linalg_lu _linalg_det _linalg_slogdet"
_WITH_SOLVE_TRIANGULAR = "triangular_solve _cholesky_solve_helper"
_BATCH_NORMS = "native_batch_norm _native_batch_norm_legit _batch_norm_with_update"
_UPSAMPLES = "upsample_nearest1d upsample_nearest2d _upsample_nearest_exact1d _upsample_nearest_exact2d"
_UPSAMPLES_BACKWARD = """
    upsample_nearest1d_backward upsample_nearest2d_backward _upsample_nearest_exact1d_backward
    _upsample_nearest_exact2d_backward upsample_linear1d_backward upsample_bilinear2d_backward
"""
_CLAMPS = "clamp.Tensor clamp.Tensor_out clamp_min.Tensor clamp_min.Tensor_out clamp_max.Tensor clamp_max.Tensor_out"
# BinaryKernel.mm: `isFloatingType(iter.common_dtype())`. Integers become floating point before that.
_FLOATING_ONLY = """
    nextafter special_zeta special_xlog1py igamma igammac logaddexp2 special_chebyshev_polynomial_t
    special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w
    special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
    special_shifted_chebyshev_polynomial_w special_hermite_polynomial_h special_hermite_polynomial_he
"""
# UnaryOps.mm, unary_op in 1.12.1 to 1.13.1, called with the operator's own input (callers read in 1.13.1; those that
# may have returned before, for integers, are left out: ceil, floor, round, trunc, logical_not)
_UNARY_1_13 = """
    abs neg sign sqrt rsqrt reciprocal exp exp2 log log2 log10 erf
    sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh
"""


def _floating_only(operator: str) -> Condition:
    name = operator.removeprefix("special_").replace("_polynomial", "")
    return guard(f"{name}_not_floating", operator, _but(FLOATING), RESULT)


def _product(operators: str, argument: str, marker: str) -> tuple[Condition, Condition]:
    """Takes half, float and bfloat16, from 2.4 on complex numbers too."""
    return (
        guard(f"{marker}_not_floating", operators, INTEGRAL | BOOL, argument),
        guard(f"{marker}_not_floating", operators, COMPLEX, argument, before="2.4"),
    )


GUARDS = (
    # -- indexing, sorting, counting, reductions
    # Indexing.mm, index_reduce_mps_out
    guard("index_reduce_int64", "index_reduce", LONG),
    guard("index_reduce_complex64", "index_reduce", _COMPLEX64),
    # Indexing.mm: validateInputData, which lets every whole number and truth value pass where nothing is accumulated
    guard("index_put_accumulate_dtype", "_index_put_impl_", _but(_ATOMIC), "values", when=_is("accumulate", True)),
    # of 2.8
    guard(
        "index_put_accumulate_int64",
        "_index_put_impl_",
        _but(_ATOMIC, _HALF, _BFLOAT16),
        "values",
        when=_is("accumulate", True),
    ),
    # index_fill_mps_, index_select_out_mps
    guard("index_fill_complex", "index_fill", COMPLEX, when=_has_places),
    guard("index_select_complex", "index_select", COMPLEX, when=_has_places),
    # Indexing.mm, index_add_mps_out
    guard("index_add_int64", "index_add", LONG, "source", when=_has_indices),
    # ScatterGather.mm: scatter_mps_general, gather_out_mps
    guard("gather_sparse_grad", "gather", when=_is("sparse_grad", True)),
    guard("gather_complex", "gather", COMPLEX, when=_has_places),
    guard("scatter_complex", "scatter scatter_add scatter_reduce", COMPLEX, when=_has_places),
    # scatter_reduce_two_mps_kernel
    guard("scatter_amax_int64", "scatter_reduce", LONG, when=_takes_extremes),
    # scatter_reduce_metal: flips the signs of what it writes into, as one stretch of memory
    guard("scatter_amax_strided", "scatter_reduce", LONG, when=_writes_extremes_with_gaps),
    # Repeat.mm, repeat_mps; TensorCompare.mm: check_min_max_dims, isin_Tensor_Tensor_out_mps
    guard("repeat_complex", "repeat", COMPLEX),
    guard("clamp_more_axes", _CLAMPS, when=_has_bounds_of_more_axes),
    guard("isin_one_dtype", "isin.Tensor_Tensor isin.Tensor_Tensor_out", when=_differ_in_dtype),
    # ReduceOps.mm: nansum_out_mps; min_max_out_mps and median_mps of 2.0; from 2.14 on median in Sort.mm
    guard("nansum_complex", "nansum", COMPLEX),
    guard("min_max_int64", "max.dim max.dim_max min.dim min.dim_min", LONG),
    guard("median_int64", "median", LONG),
    guard("median_dtype", "median nanmedian", BOOL | COMPLEX),
    # impl_func_norm_mps, which fills the result where there are no elements
    guard("norm_complex", "norm linalg_vector_norm", COMPLEX, when=_has_elements("self")),
    # UnaryOps.mm: cumsum_out_mps of 2.0, cumulative_op_impl
    guard("cumulative_complex", "cumsum cumprod", COMPLEX, when=_has_elements("self")),
    guard("cumsum_int64", "cumsum", LONG, RESULT, when=_accumulates_int64),
    # Sort.mm: kthvalue_out_mps; topk_out_mps of 1.12.1 to 1.13.1, Shape.mm
    guard("kthvalue_complex", "kthvalue", COMPLEX),
    guard("kthvalue_dtype", "kthvalue", BOOL | COMPLEX),
    guard("topk_16", "topk", when=lambda call: bool(call.argument("k") > 16)),
    # topk_out_mps and kthvalue_out_mps_impl: the graph would end the process (pytorch#154890)
    guard("topk_four_axes", "topk kthvalue", when=_has_many_axes_behind),
    # Unique.mm, _unique_impl_mps
    guard("unique_dtype", "_unique _unique2 unique_consecutive unique_dim_consecutive", COMPLEX | _UNSIGNED),
    # SummaryOps.mm, _bincount_mps; HistogramKernel.mm, histogramdd_linear_kernel
    guard("histc_dtype", "histc", BOOL | COMPLEX),
    guard("bincount_bool", "bincount", BOOL),
    # histogramdd_kernel_impl, of the weights in one dimension: reshape copies them only where they had others
    guard("histogram_weight_strided", _HISTOGRAMS, when=_has_strided_weight),
    guard("histogram_float32_only", "histogram.bin_ct histogram.bin_ct_out", _but(_FLOAT32)),
    # FastFourierTransform.mm: _fft_r2c_mps_out, computeFFTAxisPlan
    guard("fft_r2c_float_and_half", "_fft_r2c", _but(_FLOAT32, _HALF)),
    guard("fft_4_axes", "_fft_r2c _fft_c2r _fft_c2c", when=lambda call: len(call.argument("dim")) > 4),
    # -- matrix products, solvers, decompositions
    # Linear.mm, _mps_linear and mps_linear_backward; "mps linear does not support complex types" refused them for
    # as long as it was there
    *_product("linear", "input", "linear_input"),
    guard("linear_weight_not_floating", "linear", INTEGRAL | BOOL, "weight"),
    guard("linear_bias_not_floating", "linear", INTEGRAL | BOOL, "bias"),
    guard("linear_complex", "linear", COMPLEX, "input"),
    guard("linear_backward_not_floating", "linear_backward", INTEGRAL | BOOL, "grad_output"),
    # LinearAlgebra.mm: mm_out_mps_impl, addmm_out_mps_impl, bmm_out_mps, addbmm_or_baddbmm_out_mps_impl, addr_out_mps.
    *_product("mm", "self", "mm"),
    *_product("addmm", "mat1", "addmm"),
    *_product("bmm", "self", "bmm"),
    *_product("addbmm baddbmm", "batch1", "addbmm"),
    *_product("addr", "vec1", "addr"),
    # Blas.mm, dot_mps: from 2.7 on for macOS 13 only
    guard("dot_int64", "dot", LONG, before="2.7"),
    # LinearAlgebra.mm, linalg_lu_factor_ex_out_mps_impl: from 2.10 on the same message for everything but float32.
    # linalg_lu, _linalg_det and _linalg_slogdet (native/BatchLinearAlgebra.cpp) begin with a call of it, and from 2.14
    # on linalg_solve_out_mps_impl, which asked for itself before
    guard("lu_factor_complex", f"{_WITH_LU_FACTOR} _linalg_solve_ex", COMPLEX, "A", before="2.10"),
    guard("lu_factor_complex", _WITH_LU_FACTOR, _NOT_FLOAT32, "A", first="2.10.0"),
    guard("lu_factor_complex", "_linalg_solve_ex", _NOT_FLOAT32, "A", first="2.14.0"),
    guard("lu_factor_pivot", "linalg_lu_factor linalg_lu_factor_ex linalg_lu", when=_is("pivot", False)),
    # from 2.15 on this, svd_kernel_mps, cholesky_stub_impl, mps_lu_solve_kernel and linalg_solve_triangular_mps_impl
    # ask for float32 or complex64
    guard("lu_factor_dtype", f"{_WITH_LU_FACTOR} _linalg_solve_ex", _NOT_SINGLE, "A"),
    guard("lu_solve_dtype", "linalg_lu_solve", _NOT_SINGLE, "LU"),
    # linalg_solve_out_mps_impl raises in the name of lu_factor
    guard("solve_float32_only", "_linalg_solve_ex", _NOT_FLOAT32, "A"),
    # torch/_refs/linalg/__init__.py, which is the kernel of 2.12 and 2.13, is made of solve_triangular
    guard("solve_triangular_float32_only", "linalg_lu_solve", _NOT_FLOAT32, "LU"),
    guard("lu_solve_float32_only", "linalg_lu_solve", _NOT_FLOAT32, "LU"),
    guard("inverse_complex", "linalg_inv_ex", COMPLEX, "A"),
    # linalg_solve_triangular_mps_impl serves triangular_solve as well
    # and, from 2.13 on, _cholesky_solve_helper
    guard("solve_triangular_float32_only", "linalg_solve_triangular", _NOT_FLOAT32),
    guard("solve_triangular_float32_only", _WITH_SOLVE_TRIANGULAR, _NOT_FLOAT32, "A"),
    guard("solve_triangular_dtype", "linalg_solve_triangular", _NOT_SINGLE),
    guard("solve_triangular_dtype", _WITH_SOLVE_TRIANGULAR, _NOT_SINGLE, "A"),
    guard("solve_triangular_complex", "linalg_solve_triangular", COMPLEX),
    guard("solve_triangular_complex", _WITH_SOLVE_TRIANGULAR, COMPLEX, "A"),
    # linalg_cholesky_mps_impl of 2.7, from 2.14 on cholesky_stub_impl
    guard("cholesky_float32_only", "cholesky linalg_cholesky_ex", _NOT_FLOAT32),
    guard("cholesky_dtype", "linalg_cholesky_ex", _NOT_SINGLE),
    guard("cholesky_inverse_float32_only", "cholesky_inverse", _NOT_FLOAT32),
    guard("qr_float32_only", "linalg_qr", _NOT_FLOAT32, "A"),
    guard("geqrf_float32_only", "geqrf", _NOT_FLOAT32),
    # native/BatchLinearAlgebra.cpp, linalg_qr_out, which is the kernel from 2.14 on, calls geqrf_stub
    guard("geqrf_float32_only", "linalg_qr", _NOT_FLOAT32, "A"),
    # CrossKernel.mm, cross_mps_impl; FunctionOfAMatrixUtils.mm, _compute_linear_combination_mps_kernel
    guard("cross_bool", "linalg_cross", BOOL, RESULT),
    guard("matrix_exp_dtype", "_compute_linear_combination", _but(FLOATING, _COMPLEX64), "input"),
    # svd_kernel_mps
    guard("svd_driver", "_linalg_svd", when=lambda call: call.argument("driver") is not None),
    guard("svd_dtype", "_linalg_svd", _NOT_SINGLE, "A"),
    # Quantized.mm, _weight_int8pack_mm_mps
    guard("int8_product_32", "_weight_int8pack_mm", when=_does_not_fit_tiles),
    # -- layers: activations, losses, normalisation, pooling, resampling, attention, optimizers
    # Activation.mm: log_softmax_mps_out and its backward, which looks at the output; from 2.15 on SoftMax.mm
    guard("exponent_int64", "_log_softmax log_sigmoid_forward glu mish", LONG),
    guard("exponent_int64", "mish_backward", LONG),
    guard("exponent_int64", "_log_softmax_backward_data", LONG, "output"),
    guard("log_softmax_complex", "_log_softmax", COMPLEX),
    guard("log_softmax_complex", "_log_softmax_backward_data", COMPLEX, "output"),
    guard("log_softmax_bool", "_log_softmax", BOOL),
    guard("log_softmax_bool", "_log_softmax_backward_data", BOOL, "output"),
    # SoftMax.mm, softmax_mps_out, from 2.15 on softmax_mps_impl
    guard("softmax_not_floating", "_softmax", _but(FLOATING)),
    guard("softmax_dtype", "_softmax _log_softmax", _but(FLOATING)),
    guard("softmax_half_to_float_refused", "_softmax", when=_is("half_to_float", True)),
    # Activation.mm: softplus_out_mps, mish_out_mps, mish_backward_mps; ActivationKernel.mm: relu_mps
    guard("softplus_int64", "softplus", LONG, before="2.15"),
    guard("softplus_not_floating", "softplus", _but(FLOATING)),
    guard("softplus_backward_not_floating", "softplus_backward", _but(FLOATING)),
    guard("gelu_not_floating", "gelu", _but(FLOATING)),
    guard("mish_complex", "mish mish_backward", COMPLEX),
    guard("relu_complex", "relu", COMPLEX),
    # LossOps.mm: huber_loss_out_mps, smooth_l1_loss_out_mps, mse_loss_out_mps, nllnd_loss_forward_impl; the last
    # two look at the result
    guard("square_int64", "huber_loss smooth_l1_loss", LONG),
    guard("mse_loss_not_floating", "mse_loss", _but(FLOATING), RESULT),
    guard("huber_loss_complex", "huber_loss", COMPLEX),
    guard("nll_loss_complex", "nll_loss_forward nll_loss2d_forward", COMPLEX),
    guard("nll_loss_not_floating", "nll_loss_forward nll_loss2d_forward", _but(FLOATING)),
    # Normalization.mm: batch_norm_mps_out, layer_norm_mps
    guard("batch_norm_int64", _BATCH_NORMS, LONG, "input"),
    guard("batch_norm_complex", _BATCH_NORMS, COMPLEX, "input"),
    guard("batch_norm_not_floating", _BATCH_NORMS, _but(FLOATING), "input"),
    guard("layer_norm_int64", "native_layer_norm", LONG, "input"),
    # Pooling.mm: max_pool2d_with_indices_out_mps and its backward (adaptive pooling calls them: AdaptivePooling.mm)
    guard("max_pool_complex", "max_pool2d_with_indices max_pool2d_with_indices_backward", COMPLEX),
    guard("max_pool_complex", "adaptive_max_pool2d adaptive_max_pool2d_backward", COMPLEX, before="2.14"),
    guard("adaptive_max_pool_complex", "adaptive_max_pool2d", COMPLEX),
    guard("adaptive_max_pool_backward_complex", "adaptive_max_pool2d_backward", COMPLEX),
    guard("avg_pool_complex", "avg_pool2d _adaptive_avg_pool2d adaptive_avg_pool2d", COMPLEX),
    # UpSample.mm: upsample_out_template, _upsample_bilinear2d_aa_out_mps, _upsample_bicubic2d_aa_out_mps
    guard("upsample_complex", _UPSAMPLES, COMPLEX),
    guard("upsample_complex", _UPSAMPLES_BACKWARD, COMPLEX, "grad_output"),
    guard("upsample_bilinear_aa_not_floating", "_upsample_bilinear2d_aa", _but(FLOATING)),
    guard("upsample_bicubic_aa_not_floating", "_upsample_bicubic2d_aa", _but(FLOATING)),
    # GridSampler.mm; numbers of GridSamplerInterpolation and GridSamplerPadding of native/GridSamplerUtils.h
    guard("grid_sampler_complex", "grid_sampler_2d", COMPLEX, "input"),
    guard("grid_sampler_backward_complex", "grid_sampler_2d_backward", COMPLEX, "input"),
    guard("grid_sampler_border", "grid_sampler_2d", when=_is("padding_mode", 1)),
    guard("grid_sampler_bicubic", "grid_sampler_2d", when=_is("interpolation_mode", 2)),
    guard("grid_sampler_3d_nearest", "grid_sampler_3d", when=_is("interpolation_mode", 1)),
    # Attention.mm, _scaled_dot_product_attention_math_mps
    guard("attention_dtype", "_scaled_dot_product_attention_math_for_mps", _but(FLOATING), "query"),
    guard(
        "attention_dropout",
        "_scaled_dot_product_attention_math_for_mps",
        when=lambda call: bool(call.argument("dropout_p") > 0.0),
    ),
    # MultiTensorApply.h, in the kernels of FusedAdamKernel.mm and FusedAdamWKernel.mm: each list of tensors
    guard("fused_adam_dtype", "_fused_adam _fused_adamw", _but(_HALF, _BFLOAT16, _FLOAT32)),
    # Dropout.mm, native_dropout_mps
    guard("dropout_not_floating", "native_dropout", _but(FLOATING, COMPLEX), "input"),
    # -- kernels by element, and random numbers
    *map(_floating_only, _FLOATING_ONLY.split()),
    # BinaryKernel.mm: `isIntegralType(iter.common_dtype(), includeBool=false)`
    guard("gcd_not_integral", "gcd", _but(INTEGRAL), RESULT),
    guard("lcm_not_integral", "lcm", _but(INTEGRAL), RESULT),
    guard("left_shift_not_integral", "bitwise_left_shift __lshift__ __ilshift__", _but(INTEGRAL), RESULT),
    guard("right_shift_not_integral", "bitwise_right_shift __rshift__ __irshift__", _but(INTEGRAL), RESULT),
    guard("unary_int64", _UNARY_1_13, LONG),
    # UnaryOps.mm: frac_out_mps, log1p_out_mps, sigmoid_out_mps; BinaryOps.mm: atan2_out_mps
    guard("frac_not_floating", "frac", _but(FLOATING)),
    guard("log1p_int64", "log1p", LONG),
    guard("sigmoid_int64", "sigmoid", LONG),
    guard("atan2_int64", "atan2", LONG),
    # BinaryOps.mm, div_mode_template
    guard("trunc_divide_float16", "div", _HALF, when=_truncates),
    # PointwiseOps.mm, addcmul_mps_kernel
    guard("addcmul_bool", "addcmul", BOOL, RESULT),
    # Distributions.mm: normal_kernel_mps, random_kernel_mps, bernoulli_scalar_kernel_mps, bernoulli_tensor_kernel_mps
    # (complex numbers come to normal_kernel_mps as pairs of real ones: native/Distributions.cpp, normal_impl_)
    guard("normal_not_floating", "normal", INTEGRAL | BOOL, RESULT),
    guard("random_dtype", "random", COMPLEX),
    guard("random_all_int64", "random_.from", when=_draws_from_all_int64),
    guard("bernoulli_complex", "bernoulli", COMPLEX),
    # RangeFactories.mm, logspace_out_mps
    guard("logspace_integral", "logspace", INTEGRAL, RESULT),
)
MESSAGES = Conditions("guard", "unsupported", "message", GUARDS, sentence)
rules_of = MESSAGES.rules_of
