"""What the kernel of an operator reaches: stubs, Metal kernels by name, graphs, other operators; and compositions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from made_kernels import (
    BINARY,
    CALL_STUB,
    FORMAT,
    GRAPH,
    INSERT,
    LOOKUP,
    REGISTER,
    UNARY,
    block,
    formatted,
    kernel_library,
    native,
    operator_call,
    unary,
    wrapper,
)
from made_library import Address, Call, Load, MadeLibrary, Step, Text, Words, initialiser

from mpsprobe_tables.builder.callgraph import CallGraph, Reach
from mpsprobe_tables.builder.compositions import read_compositions
from mpsprobe_tables.builder.metal import KernelNames
from mpsprobe_tables.builder.stubs import read_stubs

Steps = Sequence[Step]
NAMES = ("renorm_float", "upsample_bicubic2d_float", "upsample_linear1d_half", "exp_dense_float_float")
PASS_ON, TAKE_BACK = Words((0xAA0203F3,)), Words((0xAA1303E2,))  # mov x19, x2; mov x2, x19
F, G, H = (Call(native(name)) for name in "fgh")
META, DETAIL = Call("__ZN2at4meta3expEv"), Call("__ZN3c106detail3expEv")
LOOK = Call(LOOKUP)
EXP, RENORM, SCALE = unary("exp"), formatted("renorm_{}"), [*formatted("upsample_{}_{}"), LOOK]
CONSTANTS = [Load("renorm_float", 9), Load("upsample_linear1d_half", 8)]
LONG = {native(f"f{index}"): [Call(native(f"f{index + 1}"))] for index in range(60)}


def _case(*steps: Step, f: Steps = (), g: Steps = (), more: Any = None, **reach: Any) -> tuple[Steps, Any, Reach]:
    """What an operator does, what the functions that it calls do, and what it reaches."""
    return steps, {F.symbol: f, G.symbol: g, **(more or {})}, Reach(**reach)


# Kernels and stubs that are set are cases of test_facts.py.
CASES = {
    "a stub that is not known": _case(Words((0xD2800000,)), Call(CALL_STUB), stubs={None}),
    "functions of native are followed": _case(F, f=[G], g=EXP, elementwise={("unary", "exp")}),
    "others are not": _case(META, DETAIL, more={META.symbol: unary("shape"), DETAIL.symbol: EXP}),
    "functions that call each other": _case(F, f=[G], g=[F, *EXP], elementwise={("unary", "exp")}),
    "a name in an argument": _case(Text("exp", 2), F, f=[G], g=[Call(UNARY)], elementwise={("unary", "exp")}),
    "a name survives a call in between": _case(
        *(Text("fmax", 2), F),
        f=[PASS_ON, Call(GRAPH), TAKE_BACK, Call(BINARY)],
        elementwise={("binary", "fmax")},
        graph=True,
    ),
    "two callers hand over two names": _case(
        *(Text("exp", 2), F, Text("sin", 2, slot=1), F),
        f=[Call(UNARY)],
        elementwise={("unary", "exp"), ("unary", "sin")},
    ),
    "a name that nobody hands over": _case(F, f=[Call(UNARY)], elementwise={("unary", None)}),
    "a name with another text in front": _case(F, f=[Load("renorm_", 2), Call(INSERT), LOOK], patterns={"renorm_{}"}),
    "a name in full is its own pattern": _case(F, f=[Text("renorm_float", 2), LOOK], patterns={"renorm_float"}),
    "texts that fit no kernel": _case(F, f=[*formatted("expected {}"), *formatted("x_{}"), LOOK], patterns={None}),
    "more kernels than patterns": _case(F, f=[*RENORM, LOOK, LOOK], patterns={None}),
    "a name that is chosen among constants": _case(
        F, f=[*CONSTANTS, LOOK], patterns={"renorm_float", "upsample_linear1d_half"}
    ),
    "two of them": _case(F, f=[*CONSTANTS, LOOK, LOOK], patterns={None}),
    "what is handed over narrows a pattern": _case(
        Text("bicubic2d", 5), F, f=SCALE, patterns={"upsample_bicubic2d_{}"}
    ),
    "a text that fits nothing narrows nothing": _case(Text("nearest", 5), F, f=SCALE, patterns={"upsample_{}_{}"}),
    "a block uses what is around it": _case(
        F, f=[*RENORM, Address(block("f"))], more={block("f"): [LOOK]}, patterns={"renorm_{}"}
    ),
    "other operators, but not those of generated code": _case(
        *(Call(operator_call("copy_")), F),
        f=[Call(operator_call("mul_out")), *EXP],
        operators={"mul_out"},
        elementwise={("unary", "exp")},
    ),
    "a format without constant text": _case(Call(FORMAT)),
    "a chain that is too long": _case(Call(native("f0")), more={**LONG, native("f60"): EXP}, complete=False),
}


def _reach(folder: Path, steps: Steps, functions: dict[str, Steps]) -> Reach:
    library = kernel_library({"op": steps}, functions, {}, NAMES).read(folder)
    [address] = [address for symbol, address in library.functions_named("wrapper_MPS_op") if symbol == wrapper("op")]
    return CallGraph(library, read_stubs(library), KernelNames(NAMES).fits).reach(address)


def test_what_a_kernel_reaches(tmp_path: Path) -> None:
    found = {name: _reach(tmp_path, steps, functions) for name, (steps, functions, _) in CASES.items()}
    assert found == {name: reach for name, (*_, reach) in CASES.items()}


OPERATORS = ("aten::loss", "aten::loss.out", "aten::mul.Tensor", "aten::add_.Tensor", "aten::view", "aten::neg")
REDISPATCH = "__ZN2at4_ops3neg10redispatchEN3c1014DispatchKeySetERKNS_6TensorE"
NODE = "__ZN5torch8autograd9generated13LossBackward05applyEONSt3__16vectorIN2at6TensorENS3_9allocatorIS6_EEEE"
DERIVATIVE = "__ZN5torch8autograd9generated7details13loss_backwardERKN2at6TensorE"
LAMBDA = "__ZZN5torch8autograd9generated7details13loss_backwardERKN2at6TensorEENK3$_0clES5_"
SETITEM = "__ZN5torch8autograd19THPVariable_setitemEP7_objectS2_S2_"
INDEX = "__ZN5torch8autogradL10applySliceERKN2at6TensorE"
MUL, ADD, NEG, VIEW = (Call(operator_call(name)) for name in ("mul_Tensor", "add__Tensor", "neg", "view"))


def _calls(
    folder: Path, functions: dict[str, Steps], python: dict[str, Steps] | None = None
) -> dict[str, frozenset[str]]:
    """What operators are made of; ``functions["loss"]`` is what the kernel of ``aten::loss`` does."""
    kernel = functions.pop("loss", ())
    registered = [Address(wrapper("loss")), Load("loss", 1), Call(REGISTER)] if kernel else []
    made = {initialiser("aten", "CompositeImplicitAutograd"): registered, wrapper("loss"): kernel, **functions}
    bindings = None if python is None else MadeLibrary(python).read(folder)
    return dict(read_compositions(MadeLibrary(made).read(folder), bindings, OPERATORS, "2.13.0", "aa").calls)


def test_what_composite_operators_and_derivatives_call(tmp_path: Path) -> None:
    followed = {F.symbol: [Call(REDISPATCH), Address(native("passed_on"), 10)], native("passed_on"): [ADD]}
    found = _calls(tmp_path, {"loss": [F, MUL, VIEW], **followed})  # a view is left out
    assert found == {"loss": {"mul.Tensor", "neg", "add_.Tensor"}}
    derivative = {NODE: [Call(DERIVATIVE)], DERIVATIVE: [MUL, Call(LAMBDA)], LAMBDA: [NEG]}
    found = _calls(tmp_path, derivative, {SETITEM: [Call(INDEX)], INDEX: [ADD]})
    assert found == {"LossBackward0": {"mul.Tensor", "neg"}, "Tensor.__setitem__": {"add_.Tensor"}}


def test_shape_functions_and_kernels_of_mps_are_not_followed(tmp_path: Path) -> None:
    elsewhere = ("__ZN2at4meta4lossEv", "__ZN2at6native3mps4lossEv", "__ZN3c104lossEv")
    functions = dict.fromkeys(elsewhere, (NEG,))
    assert _calls(tmp_path, {"loss": [*map(Call, elsewhere), F], F.symbol: [F], **functions}) == {"loss": frozenset()}
