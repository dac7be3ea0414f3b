"""The names of Metal kernels, and the dtypes that they tell."""

from __future__ import annotations

from pathlib import Path

from made_library import MadeLibrary

from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.metal import KernelNames, elementwise_types, kernel_names


def test_names_are_read_from_the_metal_libraries(tmp_path: Path) -> None:
    path = tmp_path / "library.dylib"
    names = ("exp_dense_float_int", "renorm_half", "x")
    for kernels, found in (((*names, "no name"), set(names)), ((), set())):
        path.write_bytes(MadeLibrary({"_f": []}, strings=("NAME",), kernels=kernels).build())
        assert kernel_names(MachO(path)) == found


READ = {
    "exp_dense_float_int": ("exp", "int"),
    "exp_strided_half_half": ("exp", "half"),
    "exp_dense_scalar_float2_float2": ("exp", "float2"),
    "abs_dense_castout_ilp_bfloat": ("abs", "bfloat"),
    "add_alpha_dense_broadcast_rhs_bool_bool_bool": ("add_alpha", "bool"),
    "eq_dense_bool_uchar": ("eq", "uchar"),
    "mul_dense_scalar_lhs_cast_half_half": ("mul", "cast:half"),
    "mul_strided_cast_long": ("mul", "cast:long"),
    "mul_dense_ilp4_short_short": ("mul", "short"),
    "mul_inner_contiguous_char_char": ("mul", "char"),
    "elu_backward_dense_float_float_ELUBackwardParams_float": ("elu_backward", "float"),
    "i0_dense_float_long": ("i0", "long"),
}


def test_the_types_that_elementwise_kernels_read() -> None:
    for name, (operation, read) in READ.items():
        assert elementwise_types([name]) == {operation: {read}}
    others = ("renorm_half", "dense_float", "exp_dense", "gather_dense_8bit_int", "exp_dense_double")
    assert elementwise_types(others) == {}
    several = ("exp_dense_float_int", "exp_strided_float_int", "exp_dense_half_half", "sin_dense_half_half")
    assert elementwise_types(several) == {"exp": {"int", "half"}, "sin": {"half"}}


UPSAMPLE = ("upsample_bicubic2d_float", "upsample_bicubic2d_half", "upsample_bilinear2d_uchar")
NAMES = KernelNames([*UPSAMPLE, "im2col_float_u32", "copy_8bit"])


def test_a_pattern_fits_names() -> None:
    assert NAMES.fits("upsample_{}_{}") and NAMES.fits("upsample_bicubic2d_float")
    others = ("upsample_nearest_{}", "bicubic2d_{}")
    no_names = ("", "{}", "up", "upsample_{} {}", "upsample_{0}_{1}", "upsample_.*", "ü_{}", "{}" * 200)
    assert not any(map(NAMES.fits, (*others, *no_names)))


def test_the_types_of_a_pattern_stand_in_its_places() -> None:
    assert NAMES.types("upsample_bicubic2d_{}") == {"float", "half"}
    assert NAMES.types("upsample_{}_{}") == {"float", "half", "uchar"}
    assert NAMES.types("im2col_{}{}") == {"float"}
    assert NAMES.types("copy_{}") == frozenset()  # it says nothing of dtypes
    assert NAMES.types("upsample_bicubic2d_float") == frozenset()
    assert NAMES.types("nothing_{}") == frozenset()
