"""What the kernel of an operator reaches: stubs, Metal kernels by name, graphs, other operators."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from made_kernels import (
    BINARY,
    CALL_STUB,
    FORMAT,
    GRAPH,
    INSERT,
    LOOKUP,
    UNARY,
    block,
    formatted,
    kernel_library,
    native,
    operator_call,
    stub,
    unary,
    wrapper,
)
from made_library import Address, Call, Load, Step, Text, Words

from mpsprobe_tables.builder.callgraph import CallGraph, Reach
from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.metal import KernelNames
from mpsprobe_tables.builder.stubs import read_stubs

NAMES = ("renorm_float", "upsample_bicubic2d_float", "upsample_linear1d_half", "exp_dense_float_float")
PASS_ON = 0xAA0203F3  # mov x19, x2
TAKE_BACK = 0xAA1303E2  # mov x2, x19


def _reach(
    folder: Path,
    steps: Sequence[Step],
    functions: dict[str, Sequence[Step]] | None = None,
    stubs: dict[str, str | None] | None = None,
) -> Reach:
    """What an operator reaches that does ``steps``."""
    path = folder / "library.dylib"
    path.write_bytes(kernel_library({"op": steps}, functions, stubs, NAMES).build())
    library = MachO(path)
    [address] = [address for symbol, address in library.functions_named("wrapper_MPS_op") if symbol == wrapper("op")]
    return CallGraph(library, read_stubs(library), KernelNames(NAMES).fits).reach(address)


def test_a_kernel_by_element_is_known_by_its_name(tmp_path: Path) -> None:
    reach = _reach(tmp_path, unary("exp"))
    assert reach == Reach(elementwise={("unary", "exp")})


def test_a_stub_is_followed_to_its_kernel_for_mps(tmp_path: Path) -> None:
    steps = [Address(stub("exp_stub")[0], 0), Call(CALL_STUB)]
    reach = _reach(tmp_path, steps, {native("exp_kernel_mps"): unary("exp")}, {"exp_stub": native("exp_kernel_mps")})
    assert (reach.stubs, reach.elementwise) == ({"exp_stub"}, {("unary", "exp")})


def test_a_stub_without_a_kernel_is_told(tmp_path: Path) -> None:
    stubs = {"put_stub": None, "exp_stub": native("exp_kernel_mps")}
    steps = [Address(stub("put_stub")[0], 0), Call(CALL_STUB)]
    reach = _reach(tmp_path, steps, {native("exp_kernel_mps"): unary("exp")}, stubs)
    assert reach == Reach(stubs={"put_stub"})


def test_a_stub_that_is_not_known_is_told(tmp_path: Path) -> None:
    assert _reach(tmp_path, [Words((0xD2800000,)), Call(CALL_STUB)]).stubs == {None}


def test_functions_of_native_are_followed_and_others_not(tmp_path: Path) -> None:
    steps = [Call(native("outer")), Call("__ZN2at4meta3expEv"), Call("__ZN3c106detail3expEv")]
    functions = {
        native("outer"): [Call(native("inner"))],
        native("inner"): unary("exp"),
        "__ZN2at4meta3expEv": unary("shape"),
        "__ZN3c106detail3expEv": unary("detail"),
    }
    assert _reach(tmp_path, steps, functions).elementwise == {("unary", "exp")}


def test_functions_that_call_each_other_come_to_an_end(tmp_path: Path) -> None:
    functions = {native("a"): [Call(native("b"))], native("b"): [Call(native("a")), *unary("exp")]}
    reach = _reach(tmp_path, [Call(native("a"))], functions)
    assert (reach.elementwise, reach.complete) == ({("unary", "exp")}, True)


def test_a_name_is_followed_through_an_argument(tmp_path: Path) -> None:
    steps = [Text("exp", 2), Call(native("outer"))]
    functions = {native("outer"): [Call(native("inner"))], native("inner"): [Call(UNARY)]}
    assert _reach(tmp_path, steps, functions).elementwise == {("unary", "exp")}


def test_a_name_survives_a_call_in_between(tmp_path: Path) -> None:
    functions = {native("inner"): [Words((PASS_ON,)), Call(GRAPH), Words((TAKE_BACK,)), Call(BINARY)]}
    reach = _reach(tmp_path, [Text("fmax", 2), Call(native("inner"))], functions)
    assert (reach.elementwise, reach.graph) == ({("binary", "fmax")}, True)


def test_two_callers_hand_over_two_names(tmp_path: Path) -> None:
    steps = [Text("exp", 2), Call(native("inner")), Text("sin", 2, slot=1), Call(native("inner"))]
    reach = _reach(tmp_path, steps, {native("inner"): [Call(UNARY)]})
    assert reach.elementwise == {("unary", "exp"), ("unary", "sin")}


def test_a_name_that_nobody_hands_over_is_not_known(tmp_path: Path) -> None:
    assert _reach(tmp_path, [Call(native("inner"))], {native("inner"): [Call(UNARY)]}).elementwise == {("unary", None)}


@pytest.mark.parametrize("steps", [formatted("renorm_{}"), [Load("renorm_", 2), Call(INSERT)]])
def test_the_pattern_of_another_name_is_told(tmp_path: Path, steps: list[Step]) -> None:
    reach = _reach(tmp_path, [Call(native("renorm"))], {native("renorm"): [*steps, Call(LOOKUP)]})
    assert reach.patterns == {"renorm_{}"}


def test_a_name_in_full_is_its_own_pattern(tmp_path: Path) -> None:
    functions = {native("renorm"): [Text("renorm_float", 2), Call(LOOKUP)]}
    assert _reach(tmp_path, [Call(native("renorm"))], functions).patterns == {"renorm_float"}


def test_texts_that_fit_no_kernel_are_left_out(tmp_path: Path) -> None:
    steps = [*formatted("expected {} but got {}"), *formatted("other_{}"), Call(LOOKUP)]
    assert _reach(tmp_path, [Call(native("f"))], {native("f"): steps}).patterns == {None}


def test_more_kernels_than_patterns_is_not_known(tmp_path: Path) -> None:
    steps = [*formatted("renorm_{}"), Call(LOOKUP), Call(LOOKUP)]
    assert _reach(tmp_path, [Call(native("f"))], {native("f"): steps}).patterns == {None}


def test_a_name_that_is_chosen_among_constants_is_found_there(tmp_path: Path) -> None:
    constants = [Load("renorm_float", 9), Load("upsample_linear1d_half", 8)]
    reach = _reach(tmp_path, [Call(native("f"))], {native("f"): [*constants, Call(LOOKUP)]})
    assert reach.patterns == {"renorm_float", "upsample_linear1d_half"}
    reach = _reach(tmp_path, [Call(native("f"))], {native("f"): [*constants, Call(LOOKUP), Call(LOOKUP)]})
    assert reach.patterns == {None}


def test_what_a_function_is_handed_narrows_its_pattern(tmp_path: Path) -> None:
    steps = [Text("bicubic2d", 5), Call(native("upsample"))]
    functions = {native("upsample"): [*formatted("upsample_{}_{}"), Call(LOOKUP)]}
    assert _reach(tmp_path, steps, functions).patterns == {"upsample_bicubic2d_{}"}


def test_a_text_that_fits_nothing_narrows_nothing(tmp_path: Path) -> None:
    steps = [Text("nearest", 5), Call(native("upsample"))]
    functions = {native("upsample"): [*formatted("upsample_{}_{}"), Call(LOOKUP)]}
    assert _reach(tmp_path, steps, functions).patterns == {"upsample_{}_{}"}


def test_a_block_is_followed_and_uses_what_is_around_it(tmp_path: Path) -> None:
    functions = {
        native("renorm"): [*formatted("renorm_{}"), Address(block("renorm"))],
        block("renorm"): [Call(LOOKUP)],
    }
    assert _reach(tmp_path, [Call(native("renorm"))], functions).patterns == {"renorm_{}"}


def test_other_operators_are_told_but_not_those_of_generated_code(tmp_path: Path) -> None:
    steps = [Call(operator_call("copy_")), Call(native("silu"))]
    reach = _reach(tmp_path, steps, {native("silu"): [Call(operator_call("mul_out")), *unary("silu")]})
    assert reach.operators == {"mul_out"}


def test_a_format_without_constant_text_is_left_alone(tmp_path: Path) -> None:
    assert _reach(tmp_path, [Call(FORMAT)]) == Reach()


def test_a_chain_that_is_too_long_is_not_complete(tmp_path: Path) -> None:
    functions = {native(f"f{index}"): [Call(native(f"f{index + 1}"))] for index in range(60)}
    functions[native("f60")] = unary("exp")
    reach = _reach(tmp_path, [Call(native("f0"))], functions)
    assert not reach.complete
