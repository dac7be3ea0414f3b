"""Guards of layers: activations, losses, normalisation, pooling, resampling, attention, optimizers.

Files are those of aten/src/ATen/native/mps/operations.
"""

from __future__ import annotations

import torch

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.judging.guards import (
    BOOL,
    COMPLEX,
    FLOATING,
    LONG,
    Argument,
    Guard,
    Result,
    Shape,
    Value,
    other_than,
)

_NOT_FOR_FUSED = other_than(frozenset({torch.float16, torch.bfloat16, torch.float32}))
_BORDER, _BICUBIC = 1, 2  # GridSamplerInterpolation and GridSamplerPadding of native/GridSamplerUtils.h
_NEAREST = 1
_BATCH_NORMS = ("native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update")
_UPSAMPLES = ("upsample_nearest1d", "upsample_nearest2d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d")
_UPSAMPLES_BACKWARD = (
    *(f"{name}_backward" for name in _UPSAMPLES),
    "upsample_linear1d_backward",
    "upsample_bilinear2d_backward",
)


def _drops(call: Call) -> bool:
    return bool(call.argument("dropout_p") > 0.0)


GUARDS: tuple[Guard, ...] = (
    # Activation.mm: log_softmax_mps_out and its backward, which looks at the output; from 2.15 on SoftMax.mm
    Guard("exponent_int64", ("_log_softmax", "log_sigmoid_forward", "glu", "mish"), Argument("self", LONG)),
    Guard("exponent_int64", ("mish_backward",), Argument("self", LONG)),
    Guard("exponent_int64", ("_log_softmax_backward_data",), Argument("output", LONG)),
    Guard("log_softmax_complex", ("_log_softmax",), Argument("self", COMPLEX)),
    Guard("log_softmax_complex", ("_log_softmax_backward_data",), Argument("output", COMPLEX)),
    Guard("log_softmax_bool", ("_log_softmax",), Argument("self", BOOL)),
    Guard("log_softmax_bool", ("_log_softmax_backward_data",), Argument("output", BOOL)),
    # SoftMax.mm, softmax_mps_out, from 2.15 on softmax_mps_impl
    Guard("softmax_not_floating", ("_softmax",), Argument("self", other_than(FLOATING))),
    Guard("softmax_dtype", ("_softmax", "_log_softmax"), Argument("self", other_than(FLOATING))),
    Guard("softmax_half_to_float_refused", ("_softmax",), Value("half_to_float", True)),
    # Activation.mm: softplus_out_mps, mish_out_mps, mish_backward_mps; ActivationKernel.mm: relu_mps
    Guard("softplus_int64", ("softplus",), Argument("self", LONG), before="2.15"),
    Guard("softplus_not_floating", ("softplus",), Argument("self", other_than(FLOATING))),
    Guard("softplus_backward_not_floating", ("softplus_backward",), Argument("self", other_than(FLOATING))),
    Guard("gelu_not_floating", ("gelu",), Argument("self", other_than(FLOATING))),
    Guard("mish_complex", ("mish", "mish_backward"), Argument("self", COMPLEX)),
    Guard("relu_complex", ("relu",), Argument("self", COMPLEX)),
    # LossOps.mm: huber_loss_out_mps, smooth_l1_loss_out_mps, mse_loss_out_mps, nllnd_loss_forward_impl; the last
    # two look at the result
    Guard("square_int64", ("huber_loss", "smooth_l1_loss"), Argument("self", LONG)),
    Guard("mse_loss_not_floating", ("mse_loss",), Result(other_than(FLOATING))),
    Guard("huber_loss_complex", ("huber_loss",), Argument("self", COMPLEX)),
    Guard("nll_loss_complex", ("nll_loss_forward", "nll_loss2d_forward"), Argument("self", COMPLEX)),
    Guard("nll_loss_not_floating", ("nll_loss_forward", "nll_loss2d_forward"), Argument("self", other_than(FLOATING))),
    # Normalization.mm: batch_norm_mps_out, layer_norm_mps
    Guard("batch_norm_int64", _BATCH_NORMS, Argument("input", LONG)),
    Guard("batch_norm_complex", _BATCH_NORMS, Argument("input", COMPLEX)),
    Guard("batch_norm_not_floating", _BATCH_NORMS, Argument("input", other_than(FLOATING))),
    Guard("layer_norm_int64", ("native_layer_norm",), Argument("input", LONG)),
    # Pooling.mm: max_pool2d_with_indices_out_mps and its backward (adaptive pooling calls them: AdaptivePooling.mm)
    Guard(
        "max_pool_complex", ("max_pool2d_with_indices", "max_pool2d_with_indices_backward"), Argument("self", COMPLEX)
    ),
    Guard(
        "max_pool_complex",
        ("adaptive_max_pool2d", "adaptive_max_pool2d_backward"),
        Argument("self", COMPLEX),
        before="2.14",
    ),
    Guard("adaptive_max_pool_complex", ("adaptive_max_pool2d",), Argument("self", COMPLEX)),
    Guard("adaptive_max_pool_backward_complex", ("adaptive_max_pool2d_backward",), Argument("self", COMPLEX)),
    Guard("avg_pool_complex", ("avg_pool2d", "_adaptive_avg_pool2d", "adaptive_avg_pool2d"), Argument("self", COMPLEX)),
    # UpSample.mm: upsample_out_template, _upsample_bilinear2d_aa_out_mps, _upsample_bicubic2d_aa_out_mps
    Guard("upsample_complex", _UPSAMPLES, Argument("self", COMPLEX)),
    Guard("upsample_complex", _UPSAMPLES_BACKWARD, Argument("grad_output", COMPLEX)),
    Guard("upsample_bilinear_aa_not_floating", ("_upsample_bilinear2d_aa",), Argument("self", other_than(FLOATING))),
    Guard("upsample_bicubic_aa_not_floating", ("_upsample_bicubic2d_aa",), Argument("self", other_than(FLOATING))),
    # GridSampler.mm
    Guard("grid_sampler_complex", ("grid_sampler_2d",), Argument("input", COMPLEX)),
    Guard("grid_sampler_backward_complex", ("grid_sampler_2d_backward",), Argument("input", COMPLEX)),
    Guard("grid_sampler_border", ("grid_sampler_2d",), Value("padding_mode", _BORDER)),
    Guard("grid_sampler_bicubic", ("grid_sampler_2d",), Value("interpolation_mode", _BICUBIC)),
    Guard("grid_sampler_3d_nearest", ("grid_sampler_3d",), Value("interpolation_mode", _NEAREST)),
    # Attention.mm, _scaled_dot_product_attention_math_mps
    Guard("attention_dtype", ("_scaled_dot_product_attention_math_for_mps",), Argument("query", other_than(FLOATING))),
    Guard("attention_dropout", ("_scaled_dot_product_attention_math_for_mps",), Shape(_drops)),
    # MultiTensorApply.h, in the kernels of FusedAdamKernel.mm and FusedAdamWKernel.mm: each list of tensors
    Guard("fused_adam_dtype", ("_fused_adam", "_fused_adamw"), Argument("self", _NOT_FOR_FUSED)),
    # Dropout.mm, native_dropout_mps
    Guard("dropout_not_floating", ("native_dropout",), Argument("input", other_than(FLOATING, COMPLEX))),
)
