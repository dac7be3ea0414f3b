"""Guards of matrix products, solvers and decompositions (aten/src/ATen/native/mps/operations)."""

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
    Guard,
    Result,
    Shape,
    Value,
    other_than,
)

_NOT_FLOAT32 = other_than(frozenset({torch.float32}))
_NOT_SINGLE = other_than(frozenset({torch.float32, torch.complex64}))
_NOT_FOR_MATRIX_EXP = other_than(FLOATING, frozenset({torch.complex64}))
_NOT_FLOATING_OR_COMPLEX = INTEGRAL | BOOL
_WITH_LU_FACTOR = ("linalg_lu_factor", "linalg_lu_factor_ex", "linalg_lu", "_linalg_det", "_linalg_slogdet")
_WITH_SOLVE_TRIANGULAR = ("triangular_solve", "_cholesky_solve_helper")


def _names_a_driver(call: Call) -> bool:
    return call.argument("driver") is not None


def _does_not_fit_tiles(call: Call) -> bool:
    weight = call.spec("mat2")
    return weight is not None and any(size % 32 for size in weight.shape)


GUARDS: tuple[Guard, ...] = (
    # Linear.mm, _mps_linear and mps_linear_backward: half, float and bfloat16, from 2.4 on complex too, which
    # "mps linear does not support complex types" refused for as long as it was there
    Guard("linear_input_not_floating", ("linear",), Argument("input", _NOT_FLOATING_OR_COMPLEX)),
    Guard("linear_input_not_floating", ("linear",), Argument("input", COMPLEX), before="2.4"),
    Guard("linear_weight_not_floating", ("linear",), Argument("weight", _NOT_FLOATING_OR_COMPLEX)),
    Guard("linear_bias_not_floating", ("linear",), Argument("bias", _NOT_FLOATING_OR_COMPLEX)),
    Guard("linear_complex", ("linear",), Argument("input", COMPLEX)),
    Guard("linear_backward_not_floating", ("linear_backward",), Argument("grad_output", _NOT_FLOATING_OR_COMPLEX)),
    # LinearAlgebra.mm: mm_out_mps_impl, addmm_out_mps_impl, bmm_out_mps, addbmm_or_baddbmm_out_mps_impl, addr_out_mps.
    # They too take half, float and bfloat16, from 2.4 on complex.
    Guard("mm_not_floating", ("mm",), Argument("self", _NOT_FLOATING_OR_COMPLEX)),
    Guard("mm_not_floating", ("mm",), Argument("self", COMPLEX), before="2.4"),
    Guard("addmm_not_floating", ("addmm",), Argument("mat1", _NOT_FLOATING_OR_COMPLEX)),
    Guard("addmm_not_floating", ("addmm",), Argument("mat1", COMPLEX), before="2.4"),
    Guard("bmm_not_floating", ("bmm",), Argument("self", _NOT_FLOATING_OR_COMPLEX)),
    Guard("bmm_not_floating", ("bmm",), Argument("self", COMPLEX), before="2.4"),
    Guard("addbmm_not_floating", ("addbmm", "baddbmm"), Argument("batch1", _NOT_FLOATING_OR_COMPLEX)),
    Guard("addbmm_not_floating", ("addbmm", "baddbmm"), Argument("batch1", COMPLEX), before="2.4"),
    Guard("addr_not_floating", ("addr",), Argument("vec1", _NOT_FLOATING_OR_COMPLEX)),
    Guard("addr_not_floating", ("addr",), Argument("vec1", COMPLEX), before="2.4"),
    # Blas.mm, dot_mps: from 2.7 on for macOS 13 only
    Guard("dot_int64", ("dot",), Argument("self", LONG), before="2.7"),
    # LinearAlgebra.mm, linalg_lu_factor_ex_out_mps_impl: from 2.10 on the same message for everything but float32.
    # linalg_lu, _linalg_det and _linalg_slogdet (native/BatchLinearAlgebra.cpp) begin with a call of it, and from 2.14
    # on linalg_solve_out_mps_impl, which asked for itself before
    Guard("lu_factor_complex", (*_WITH_LU_FACTOR, "_linalg_solve_ex"), Argument("A", COMPLEX), before="2.10"),
    Guard("lu_factor_complex", _WITH_LU_FACTOR, Argument("A", _NOT_FLOAT32), since="2.10"),
    Guard("lu_factor_complex", ("_linalg_solve_ex",), Argument("A", _NOT_FLOAT32), since="2.14"),
    Guard("lu_factor_pivot", ("linalg_lu_factor", "linalg_lu_factor_ex", "linalg_lu"), Value("pivot", False)),
    # from 2.15 on this, svd_kernel_mps, cholesky_stub_impl, mps_lu_solve_kernel and linalg_solve_triangular_mps_impl
    # ask for float32 or complex64
    Guard("lu_factor_dtype", (*_WITH_LU_FACTOR, "_linalg_solve_ex"), Argument("A", _NOT_SINGLE)),
    Guard("lu_solve_dtype", ("linalg_lu_solve",), Argument("LU", _NOT_SINGLE)),
    # linalg_solve_out_mps_impl raises in the name of lu_factor
    Guard("solve_float32_only", ("_linalg_solve_ex",), Argument("A", _NOT_FLOAT32)),
    # torch/_refs/linalg/__init__.py, which is the kernel of 2.12 and 2.13, is made of solve_triangular
    Guard("solve_triangular_float32_only", ("linalg_lu_solve",), Argument("LU", _NOT_FLOAT32)),
    Guard("lu_solve_float32_only", ("linalg_lu_solve",), Argument("LU", _NOT_FLOAT32)),
    Guard("inverse_complex", ("linalg_inv_ex",), Argument("A", COMPLEX)),
    # linalg_solve_triangular_mps_impl serves triangular_solve as well
    # and, from 2.13 on, _cholesky_solve_helper
    Guard("solve_triangular_float32_only", ("linalg_solve_triangular",), Argument("self", _NOT_FLOAT32)),
    Guard("solve_triangular_float32_only", _WITH_SOLVE_TRIANGULAR, Argument("A", _NOT_FLOAT32)),
    Guard("solve_triangular_dtype", ("linalg_solve_triangular",), Argument("self", _NOT_SINGLE)),
    Guard("solve_triangular_dtype", _WITH_SOLVE_TRIANGULAR, Argument("A", _NOT_SINGLE)),
    Guard("solve_triangular_complex", ("linalg_solve_triangular",), Argument("self", COMPLEX)),
    Guard("solve_triangular_complex", _WITH_SOLVE_TRIANGULAR, Argument("A", COMPLEX)),
    # linalg_cholesky_mps_impl of 2.7, from 2.14 on cholesky_stub_impl
    Guard("cholesky_float32_only", ("cholesky", "linalg_cholesky_ex"), Argument("self", _NOT_FLOAT32)),
    Guard("cholesky_dtype", ("linalg_cholesky_ex",), Argument("self", _NOT_SINGLE)),
    Guard("cholesky_inverse_float32_only", ("cholesky_inverse",), Argument("self", _NOT_FLOAT32)),
    Guard("qr_float32_only", ("linalg_qr",), Argument("A", _NOT_FLOAT32)),
    Guard("geqrf_float32_only", ("geqrf",), Argument("self", _NOT_FLOAT32)),
    # native/BatchLinearAlgebra.cpp, linalg_qr_out, which is the kernel from 2.14 on, calls geqrf_stub
    Guard("geqrf_float32_only", ("linalg_qr",), Argument("A", _NOT_FLOAT32)),
    # CrossKernel.mm, cross_mps_impl; FunctionOfAMatrixUtils.mm, _compute_linear_combination_mps_kernel
    Guard("cross_bool", ("linalg_cross",), Result(BOOL)),
    Guard("matrix_exp_dtype", ("_compute_linear_combination",), Argument("input", _NOT_FOR_MATRIX_EXP)),
    # svd_kernel_mps
    Guard("svd_driver", ("_linalg_svd",), Shape(_names_a_driver)),
    Guard("svd_dtype", ("_linalg_svd",), Argument("A", _NOT_SINGLE)),
    # Quantized.mm, _weight_int8pack_mm_mps
    Guard("int8_product_32", ("_weight_int8pack_mm",), Shape(_does_not_fit_tiles)),
)
