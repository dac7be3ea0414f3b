"""What the kernel of an operator reaches: stubs, Metal kernels by name, graphs, other operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
PASS_ON, TAKE_BACK = Words((0xAA0203F3,)), Words((0xAA1303E2,))  # mov x19, x2; mov x2, x19
F = native("f")
CALL_F = [Call(F)]
META, DETAIL = "__ZN2at4meta3expEv", "__ZN3c106detail3expEv"
EXP = {("unary", "exp")}
EXP_KERNEL = native("exp_kernel_mps")
SCALE = [*formatted("upsample_{}_{}"), Call(LOOKUP)]
CONSTANTS = [Load("renorm_float", 9), Load("upsample_linear1d_half", 8)]


@dataclass(frozen=True)
class Case:
    """What an operator does, what the functions that it calls do, and what it reaches."""

    steps: Sequence[Step]
    reach: Reach
    functions: dict[str, Sequence[Step]] = field(default_factory=dict)
    stubs: dict[str, str | None] = field(default_factory=dict)


CASES = {
    "a kernel by element is known by its name": Case(unary("exp"), Reach(elementwise=EXP)),
    "a stub is followed to its kernel for MPS": Case(
        [Address(stub("exp_stub")[0], 0), Call(CALL_STUB)],
        Reach(stubs={"exp_stub"}, elementwise=EXP),
        {EXP_KERNEL: unary("exp")},
        {"exp_stub": EXP_KERNEL},
    ),
    "a stub without a kernel": Case(
        [Address(stub("put_stub")[0], 0), Call(CALL_STUB)],
        Reach(stubs={"put_stub"}),
        {EXP_KERNEL: unary("exp")},
        {"put_stub": None, "exp_stub": EXP_KERNEL},
    ),
    "a stub that is not known": Case([Words((0xD2800000,)), Call(CALL_STUB)], Reach(stubs={None})),
    "functions of native are followed and others not": Case(
        [*CALL_F, Call(META), Call(DETAIL)],
        Reach(elementwise=EXP),
        {F: [Call(native("g"))], native("g"): unary("exp"), META: unary("shape"), DETAIL: unary("detail")},
    ),
    "functions that call each other come to an end": Case(
        CALL_F, Reach(elementwise=EXP), {F: [Call(native("g"))], native("g"): [*CALL_F, *unary("exp")]}
    ),
    "a name is followed through an argument": Case(
        [Text("exp", 2), *CALL_F], Reach(elementwise=EXP), {F: [Call(native("g"))], native("g"): [Call(UNARY)]}
    ),
    "a name survives a call in between": Case(
        [Text("fmax", 2), *CALL_F],
        Reach(elementwise={("binary", "fmax")}, graph=True),
        {F: [PASS_ON, Call(GRAPH), TAKE_BACK, Call(BINARY)]},
    ),
    "two callers hand over two names": Case(
        [Text("exp", 2), *CALL_F, Text("sin", 2, slot=1), *CALL_F],
        Reach(elementwise={*EXP, ("unary", "sin")}),
        {F: [Call(UNARY)]},
    ),
    "a name that nobody hands over": Case(CALL_F, Reach(elementwise={("unary", None)}), {F: [Call(UNARY)]}),
    "the pattern of another name": Case(
        CALL_F, Reach(patterns={"renorm_{}"}), {F: [*formatted("renorm_{}"), Call(LOOKUP)]}
    ),
    "a name with another text in front": Case(
        CALL_F, Reach(patterns={"renorm_{}"}), {F: [Load("renorm_", 2), Call(INSERT), Call(LOOKUP)]}
    ),
    "a name in full is its own pattern": Case(
        CALL_F, Reach(patterns={"renorm_float"}), {F: [Text("renorm_float", 2), Call(LOOKUP)]}
    ),
    "texts that fit no kernel": Case(
        CALL_F,
        Reach(patterns={None}),
        {F: [*formatted("expected {} but got {}"), *formatted("other_{}"), Call(LOOKUP)]},
    ),
    "more kernels than patterns": Case(
        CALL_F, Reach(patterns={None}), {F: [*formatted("renorm_{}"), Call(LOOKUP), Call(LOOKUP)]}
    ),
    "a name that is chosen among constants": Case(
        CALL_F, Reach(patterns={"renorm_float", "upsample_linear1d_half"}), {F: [*CONSTANTS, Call(LOOKUP)]}
    ),
    "two names that are chosen among constants": Case(
        CALL_F, Reach(patterns={None}), {F: [*CONSTANTS, Call(LOOKUP), Call(LOOKUP)]}
    ),
    "what a function is handed narrows its pattern": Case(
        [Text("bicubic2d", 5), *CALL_F], Reach(patterns={"upsample_bicubic2d_{}"}), {F: SCALE}
    ),
    "a text that fits nothing narrows nothing": Case(
        [Text("nearest", 5), *CALL_F], Reach(patterns={"upsample_{}_{}"}), {F: SCALE}
    ),
    "a block is followed and uses what is around it": Case(
        CALL_F,
        Reach(patterns={"renorm_{}"}),
        {F: [*formatted("renorm_{}"), Address(block("f"))], block("f"): [Call(LOOKUP)]},
    ),
    "other operators, but not those of generated code": Case(
        [Call(operator_call("copy_")), *CALL_F],
        Reach(operators={"mul_out"}, elementwise={("unary", "silu")}),
        {F: [Call(operator_call("mul_out")), *unary("silu")]},
    ),
    "a format without constant text": Case([Call(FORMAT)], Reach()),
    "a chain that is too long is not complete": Case(
        [Call(native("f0"))],
        Reach(complete=False),
        {native(f"f{index}"): [Call(native(f"f{index + 1}"))] for index in range(60)} | {native("f60"): unary("exp")},
    ),
}


def _reach(folder: Path, case: Case) -> Reach:
    path = folder / "library.dylib"
    path.write_bytes(kernel_library({"op": case.steps}, case.functions, case.stubs, NAMES).build())
    library = MachO(path)
    [address] = [address for symbol, address in library.functions_named("wrapper_MPS_op") if symbol == wrapper("op")]
    return CallGraph(library, read_stubs(library), KernelNames(NAMES).fits).reach(address)


def test_what_a_kernel_reaches(tmp_path: Path) -> None:
    assert {name: _reach(tmp_path, one) for name, one in CASES.items()} == {n: one.reach for n, one in CASES.items()}
