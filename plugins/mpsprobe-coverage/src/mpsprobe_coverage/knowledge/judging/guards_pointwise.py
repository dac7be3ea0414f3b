"""Guards of kernels by element and of random numbers.

Files are those of aten/src/ATen/native/mps/operations.
"""

from __future__ import annotations

import torch

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.judging.guards import (
    BOOL,
    COMPLEX,
    FLOATING,
    INTEGRAL,
    LONG,
    Argument,
    Both,
    Guard,
    Result,
    other_than,
)

# BinaryKernel.mm: `isFloatingType(iter.common_dtype())`. Integers become floating point before that.
_FLOATING_ONLY = {
    "nextafter_not_floating": "nextafter",
    "zeta_not_floating": "special_zeta",
    "xlog1py_not_floating": "special_xlog1py",
    "chebyshev_t_not_floating": "special_chebyshev_polynomial_t",
    "chebyshev_u_not_floating": "special_chebyshev_polynomial_u",
    "chebyshev_v_not_floating": "special_chebyshev_polynomial_v",
    "chebyshev_w_not_floating": "special_chebyshev_polynomial_w",
    "shifted_chebyshev_t_not_floating": "special_shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_u_not_floating": "special_shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_v_not_floating": "special_shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_w_not_floating": "special_shifted_chebyshev_polynomial_w",
    "hermite_h_not_floating": "special_hermite_polynomial_h",
    "hermite_he_not_floating": "special_hermite_polynomial_he",
    "igamma_not_floating": "igamma",
    "igammac_not_floating": "igammac",
    "logaddexp2_not_floating": "logaddexp2",
}

# BinaryKernel.mm: `isIntegralType(iter.common_dtype(), includeBool=false)`
_INTEGRAL_ONLY = {
    "gcd_not_integral": ("gcd",),
    "lcm_not_integral": ("lcm",),
    "left_shift_not_integral": ("bitwise_left_shift", "__lshift__", "__ilshift__"),
    "right_shift_not_integral": ("bitwise_right_shift", "__rshift__", "__irshift__"),
}

# UnaryOps.mm, unary_op in 1.12.1 to 1.13.1, called with the operator's own input (callers read in 1.13.1; those that
# may have returned before, for integers, are left out: ceil, floor, round, trunc, logical_not)
_UNARY_1_13 = (
    *("abs", "neg", "sign", "sqrt", "rsqrt", "reciprocal", "exp", "exp2", "log", "log2", "log10", "erf"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh"),
)


def _truncates(call: Call) -> bool:
    names = [argument.name for argument in call.func._schema.arguments]
    return "rounding_mode" in names and call.argument("rounding_mode") == "trunc"


GUARDS: tuple[Guard, ...] = (
    *(Guard(marker, (name,), Result(other_than(FLOATING))) for marker, name in _FLOATING_ONLY.items()),
    *(Guard(marker, names, Result(other_than(INTEGRAL))) for marker, names in _INTEGRAL_ONLY.items()),
    Guard("unary_int64", _UNARY_1_13, Argument("self", LONG)),
    # UnaryOps.mm: frac_out_mps, log1p_out_mps, sigmoid_out_mps; BinaryOps.mm: atan2_out_mps
    Guard("frac_not_floating", ("frac",), Argument("self", other_than(FLOATING))),
    Guard("log1p_int64", ("log1p",), Argument("self", LONG)),
    Guard("sigmoid_int64", ("sigmoid",), Argument("self", LONG)),
    Guard("atan2_int64", ("atan2",), Argument("self", LONG)),
    # BinaryOps.mm, div_mode_template
    Guard("trunc_divide_float16", ("div",), Both(Argument("self", frozenset({torch.float16})), _truncates)),
    # PointwiseOps.mm, addcmul_mps_kernel
    Guard("addcmul_bool", ("addcmul",), Result(BOOL)),
    # Distributions.mm: normal_kernel_mps, random_kernel_mps, bernoulli_scalar_kernel_mps, bernoulli_tensor_kernel_mps
    # (complex numbers come to normal_kernel_mps as pairs of real ones: native/Distributions.cpp, normal_impl_)
    Guard("normal_not_floating", ("normal",), Result(INTEGRAL | BOOL)),
    Guard("random_dtype", ("random",), Argument("self", COMPLEX)),
    Guard("bernoulli_complex", ("bernoulli",), Argument("self", COMPLEX)),
    # RangeFactories.mm, logspace_out_mps
    Guard("logspace_integral", ("logspace",), Result(INTEGRAL)),
)
