"""What the kernel of an operator reaches, and what is certain about it; which operators others are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from made_library import (
    BINARY,
    CALL_STUB,
    FALLBACK,
    FORMAT,
    GRAPH,
    INSERT,
    LOOKUP,
    REGISTER,
    UNARY,
    Address,
    Call,
    Load,
    MadeLibrary,
    Step,
    Text,
    Words,
    binary,
    block,
    formatted,
    initialiser,
    kernel_library,
    native,
    operator_call,
    stub,
    unary,
    wrapper,
)
from made_wheel import make_wheel

from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.knowledge.kernels.kernel_facts import FACTS, MAY, KernelFacts
from mpsprobe_tables.builder.callgraph import CallGraph, Reach
from mpsprobe_tables.builder.compositions import read_compositions
from mpsprobe_tables.builder.facts import read_facts
from mpsprobe_tables.builder.metal import KernelNames
from mpsprobe_tables.builder.rebuild import from_files, rebuild
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


# Kernels and stubs that are set are cases of the tests of facts below.
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


KERNELS = (
    *("exp_dense_float_float", "exp_strided_half_half", "fmax_dense_bool_bool", "maximum_dense_long_long"),
    *("renorm_float", "renorm_half", "copy_8bit", "offsets"),
)
EXP_STUB = [Address(stub("exp_stub")[0], 0), Call(CALL_STUB)]
PUT_STUB = [Address(stub("put_stub")[0], 0), Call(CALL_STUB)]
STUBS: dict[str, str | None] = {"exp_stub": native("exp_kernel_mps"), "put_stub": None}
PREPARE: list[Step] = [Text("offsets", 2), Call(LOOKUP)]
RENORMS: list[Step] = [*formatted("renorm_{}"), Call(LOOKUP)]
FUNCTIONS: dict[str, Steps] = {
    native("exp_kernel_mps"): unary("exp"),
    native("unknown name"): [Call(LOOKUP)],
    native("index_put"): [Call(operator_call("index_put_"))],
    native("runs a graph"): [Call(GRAPH)],
    native("renorm"): RENORMS,
    native("copy"): [*formatted("copy_{}"), Call(LOOKUP)],
    native("prepares"): PREPARE,
    native("prepares and renorm"): [*PREPARE, *RENORMS],
    native("prepares and exp"): [*PREPARE, *unary("exp")],
}


def _facts(folder: Path, library: MadeLibrary) -> KernelFacts:
    return read_facts(library.read(folder), "2.13.0", "c0ffee")


def _about(folder: Path, cases: Mapping[str, Steps], stubs: dict[str, str | None] = STUBS) -> KernelFacts:
    """What is said about operators that do these steps, under the names of the cases."""
    facts = _facts(
        folder, kernel_library({f"op{n}": one for n, one in enumerate(cases.values())}, FUNCTIONS, stubs, KERNELS)
    )
    operators, graphs = (
        {name: known[f"aten::op{n}"] for n, name in enumerate(cases) if f"aten::op{n}" in known}
        for known in (facts.operators, facts.graphs)
    )
    return replace(facts, operators=operators, graphs=graphs)


def test_operators_and_the_kernels_that_they_use(tmp_path: Path) -> None:
    made = {"exp.out": unary("exp"), "exp_": unary("exp"), "fmax": binary("fmax"), "renorm": [Call(native("renorm"))]}
    facts = _facts(tmp_path, kernel_library(made, FUNCTIONS, kernels=KERNELS))
    assert facts.operators == {
        "aten::exp.out": {"unary:exp"},
        "aten::exp_": {"unary:exp"},
        "aten::fmax": {"binary:fmax"},
        "aten::renorm": {"named:renorm_{}"},
    }
    kernels = {"exp": {"float", "half"}, "fmax": {"bool"}, "renorm_{}": {"float", "half"}}
    assert facts.kernels == kernels  # 'maximum' is nobody's
    assert (facts.release, facts.sha256) == ("2.13.0", "c0ffee")


def test_what_is_said_of_kernels_and_stubs(tmp_path: Path) -> None:
    """Nothing where an operator may compute in another way too."""
    ways = {
        "a graph": [Call(GRAPH)],
        "another operator": [Call(native("index_put"))],
        "a kernel that is not there": unary("not_in_the_library"),
        "a name that is not known": [Call(native("unknown name"))],
    }
    cases = {
        "a stub with a kernel": EXP_STUB,
        "a stub without one": PUT_STUB,
        **{f"a stub without one, and {name}": [*PUT_STUB, *steps] for name, steps in ways.items()},
        "a stub without one, and one with": [*PUT_STUB, *EXP_STUB],
        "a stub without one, and a kernel": [*PUT_STUB, *unary("exp")],
        **{f"a kernel, and {name}": [*unary("exp"), *steps] for name, steps in ways.items()},
        "a kernel that serves all dtypes": [Call(native("copy"))],
        "a kernel that prepares": [Call(native("prepares"))],
        "a kernel that prepares, and renorm": [Call(native("prepares and renorm"))],
        "a kernel that prepares, and exp": [Call(native("prepares and exp"))],
    }
    assert _about(tmp_path, cases).operators == {
        "a stub with a kernel": {"unary:exp"},
        "a stub without one": {"stub:put_stub"},
        "a kernel that prepares, and renorm": {"named:renorm_{}"},
        "a kernel that prepares, and exp": {"unary:exp"},
    }
    assert _about(tmp_path, {"no stub has a kernel": PUT_STUB}, {"put_stub": None}).operators == {}


def test_which_operators_can_reach_a_graph(tmp_path: Path) -> None:
    further = [Call(native("runs a graph"))]
    cases = {"itself": [Call(GRAPH)], "in what it calls": further, "besides": [*EXP_STUB, *further], "never": EXP_STUB}
    assert _about(tmp_path, cases).graphs == dict.fromkeys(("itself", "in what it calls", "besides"), frozenset({MAY}))


def test_operators_that_only_make_tensors_are_no_other_way(tmp_path: Path) -> None:
    harmless = {"empty_memory_format", "resize_", "unsqueeze", "squeeze_dim", "view"}
    every = [*harmless, "view_dtype", "view_as_real", "to_dtype", "copy_", "fill__Scalar"]
    functions = {native(name): [Call(operator_call(name))] for name in every}
    made = {name: [*unary("exp"), Call(native(name))] for name in every}
    known = _facts(tmp_path, kernel_library(made, functions, kernels=KERNELS)).operators
    assert known == dict.fromkeys((f"aten::{name}" for name in harmless), frozenset({"unary:exp"}))


def test_fallbacks_have_no_kernels(tmp_path: Path) -> None:
    registered = [Address(FALLBACK), Load("linalg_svd", 1), Call(REGISTER)]
    library = MadeLibrary({FALLBACK: unary("exp"), initialiser("aten", "MPS"): registered}, kernels=KERNELS)
    assert _facts(tmp_path, library).operators == {}


def test_a_wheel_gives_a_data_file_on_top_of_the_release_before(tmp_path: Path) -> None:
    library = kernel_library({"by_hand": unary("exp")}, kernels=KERNELS).build()
    [built] = rebuild(from_files([str(make_wheel(tmp_path, library=library))]), SilentProgress())
    file = FACTS.decode(built.files[1].data, "x")
    assert (file.base, file.changes["operators"]["aten::by_hand"]) == ("2.12.1", "unary:exp")
    assert file.changes["operators"]["aten::exp"] == ""  # which the shipped 2.12.1 has, and this library not


SENT = "_objc_msgSend$castTensor:toType:name:"
MESSAGE, HEADERS, FILE = "a message of the kernel", "a text of a header", "/pytorch/aten/src/ATen/native/mps/Op.mm"
SHARED = "__ZN2at6native3mps12getMPSScalarEv"
OWN: dict[str, Steps] = {
    F.symbol: [Load(MESSAGE), Load(HEADERS), Load(FILE), MUL, Call(SENT), *EXP_STUB, Call(SHARED)],
    native("exp_kernel_mps"): unary("exp"),
    SHARED: [Load("shared by all kernels")],
    "__ZN3c105otherEv": [Load(HEADERS)],
}


def _code(folder: Path, functions: dict[str, Steps], **changes: Any) -> str:
    made = kernel_library({"op": [F]}, {**OWN, **functions}, {"exp_stub": native("exp_kernel_mps")}, KERNELS)
    return _facts(folder, replace(made, objects=[*made.objects, SENT], **changes)).code["aten::op"]


def test_the_same_code_in_other_instructions(tmp_path: Path) -> None:
    header, empty = Load("a text of a newer header", 3), Call(operator_call("empty_memory_format"))
    other: dict[str, Steps] = {
        F.symbol: [*EXP_STUB, Call(SENT), MUL, MUL, Load(MESSAGE, 7, near=True), G, empty, header],
        G.symbol: [Call(SHARED), MUL],
        SHARED: [Load("shared by all kernels, and changed")],
        "__ZN3c105otherEv": [header, Load(HEADERS)],
    }
    assert _code(tmp_path, other) == _code(tmp_path, {})


def test_code_that_does_something_else(tmp_path: Path) -> None:
    changes: list[dict[str, Steps]] = [
        {F.symbol: [step for step in OWN[F.symbol] if step != left_out]}
        for left_out in (MUL, Call(SENT), Load(MESSAGE))
    ]
    changes.append({F.symbol: [*OWN[F.symbol], G], G.symbol: [NEG]})
    changes.append({F.symbol: [*OWN[F.symbol], Address(block("f"))], block("f"): [Load("handed to a block")]})
    changes.append({native("exp_kernel_mps"): unary("fmax")})
    codes = [_code(tmp_path, {}), _code(tmp_path, {}, compiled=3680), *(_code(tmp_path, one) for one in changes)]
    assert len(set(codes)) == len(codes)
