"""Which dtypes a kernel refuses or lacks, and whether it always makes a graph, in libraries made by instructions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from made_library import (
    BINARY,
    CALL_STUB,
    LOOKUP,
    Address,
    Call,
    Load,
    Step,
    Words,
    binary,
    block,
    definitions,
    formatted,
    kernel_library,
    native,
    operator_call,
    stub,
    unary,
)

from mpsprobe_coverage.knowledge.kernels.kernel_facts import (
    EMPTY,
    EMPTY_INPUTS,
    EVERY,
    GRAPH,
    SAME,
    KernelFacts,
    Refusal,
)
from mpsprobe_tables.builder.facts import read_facts

# Instructions of functions that ask for the dtype of a tensor (Arm's manual, DDI 0487).
COUNT_AT, DTYPE_AT = 0xA0, 0xA8  # of numel and the dtype in the TensorImpl that these functions are made for
CHECK_FAIL = "__ZN3c106detail14torchCheckFailEPKcS2_jRKNSt3__112basic_stringIcEE"
LS, EQ = 9, 0  # conditions


def load(tensor: int, offset: int, into: int = 8) -> Words:
    """``into`` = a field of the TensorImpl of the ``const Tensor&`` in the register ``tensor``: ``ldr``, ``ldrh``."""
    size, opcode = (2, 0x79400000) if offset == DTYPE_AT else (8, 0xF9400000)
    return Words((0xF9400000 | tensor << 5 | into, opcode | offset // size << 10 | into << 5 | into))


def subtract(number: int, register: int = 8) -> Words:
    """``register -= number``, in 32 bits."""
    return Words((0x51000000 | number << 10 | register << 5 | register,))


def compare(number: int, register: int = 8) -> Words:
    """``cmp register, #number``."""
    return Words((0x71000000 | number << 10 | register << 5 | 31,))


def jump(by: int, condition: int | None = None) -> Words:
    """``b``, or ``b.condition``, ``by`` instructions on from this one."""
    return Words((0x14000000 | by & 0x3FFFFFF if condition is None else 0x54000000 | (by & 0x7FFFF) << 5 | condition,))


def jump_if_zero(by: int, register: int = 8) -> Words:
    """``cbz register``."""
    return Words((0xB4000000 | (by & 0x7FFFF) << 5 | register,))


RETURN = Words((0xD65F03C0,))
TOO_MANY = [load(0, DTYPE_AT), compare(0x2F), jump(2, 2), RETURN]
"""How a function begins that asks for a dtype: is it one of 47 at all. By it the reader finds ``DTYPE_AT``."""


def refuses_complex(tensor: int) -> list[Step]:
    """Raises where ``8 <= dtype <= 10``."""
    return [load(tensor, DTYPE_AT), subtract(8), compare(2), jump(2, LS), RETURN, Call(CHECK_FAIL)]


FIRST, SECOND, OUT = 2, 3, 4  # registers: the functor and the dispatch keys come before the arguments
BEGINS = "__ZN2at6native3mps5firstERKNS_6TensorE"
TO = Call("__ZN2at4_ops8to_dtype4callERKNS_6TensorE")
CONTIGUOUS = Call("__ZN2at4_ops10contiguous4callERKNS_6TensorE")
TYPE_NAME = "__ZN2at6native3mps23scalarToMetalTypeStringERKNS_10TensorBaseE"
LOOK_UP = "__ZN2at6native3mps18MetalShaderLibrary23getPipelineStateForFuncERKNSt3__112basic_stringE"
PLACEHOLDER = "__ZN2at6native3mps11PlaceholderC1EP14MPSGraphTensorRKNS_6TensorEP7NSArrayIP8NSNumberEb11MPSDataType"
NEW_MACOS = "__ZN2at3mps20is_macos_13_or_newerENS0_12MacOSVersionE"
COMPLEX = frozenset({"complex32", "complex64"})  # complex128 is refused everywhere
ONE, TWO = "op(Tensor self) -> Tensor", "op(Tensor self, Tensor other) -> Tensor"
WITH_OUT = "op(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)"
FAILS, CHECK, F, BLOCK = Call(CHECK_FAIL), native("check"), native("f"), block("f")
UNKNOWN = Words((0xF9400028,))  # ldr x8, [x1]
PASS_ON = Words((0xAA0203E0,))  # mov x0, x2
RESULT_ON_STACK = Words((0xAA0203E0, 0x910003E8))  # mov x0, x2; mov x8, sp
FROM_STACK = Words((0x910003E2,))  # mov x2, sp
COUNTING = [Words((0x52800009,)), Words((0x11000529,)), compare(3, 9), jump(-2, 11)]  # mov w9, #0; add w9, w9, #1
CALLS_STUB: list[Step] = [
    *[Words((0xAA0203F3,)), Address(stub("op_stub")[0], 0), Call(CALL_STUB)],  # mov x19, x2
    *[Words((0xAA0003E8, 0xAA1303E0, 0xD63F0100)), RETURN],  # mov x8, x0; mov x0, x19; blr x8
]
NO_COMPLEX = refuses_complex(FIRST)
OPERAND: list[Step] = [Call(PLACEHOLDER), RETURN]
RETURNS_EARLY: list[Step] = [load(FIRST, COUNT_AT), jump_if_zero(2), jump(2), RETURN]
UNLESS_UNKNOWN: list[Step] = [UNKNOWN, jump_if_zero(2), jump(2), RETURN]


def _facts(folder: Path, steps: Sequence[Step], schema: str = ONE, **more: Any) -> KernelFacts:
    """What is known of an operator that does ``steps``, and of ``calls``, which calls a function that does."""
    functions = {BEGINS: TOO_MANY, F: steps, **more.pop("functions", {})}
    operators = {"op": steps, "calls": [Call(F), RETURN], "exp": unary("exp")}
    library = kernel_library(operators, functions, more.pop("stubs", None), **more)
    library.functions[definitions("aten")] = [Load(schema), Load(schema.replace("op(", "calls("))]
    return read_facts(library.read(folder), "2.13.0", "c0ffee")


def _refused(folder: Path, steps: Sequence[Step], schema: str = ONE, **more: Any) -> frozenset[Refusal]:
    return _facts(folder, steps, schema, **more).refusals.get("aten::op", frozenset())


REFUSE_COMPLEX: dict[str, tuple[Any, ...]] = {
    "a range of dtypes that raises": ("self", NO_COMPLEX),
    "a way round the check": (None, [*UNLESS_UNKNOWN, *NO_COMPLEX]),
    "an early return without elements": ("self", [*RETURNS_EARLY, *NO_COMPLEX]),
    "each argument by itself": ("index", refuses_complex(SECOND), TWO.replace("other", "index")),
    "an ArrayRef is a pointer and a length": (
        "self",
        refuses_complex(FIRST + 2),
        "op(int[] size, Tensor self) -> Tensor",
    ),
    # Nothing is known of the condition; one of the tensors raises.
    "a branch to either check": (EVERY, [UNKNOWN, jump_if_zero(8), *NO_COMPLEX, *refuses_complex(SECOND)], TWO),
    "results that have the dtype too": (SAME, refuses_complex(OUT), WITH_OUT),
    "another dtype is not followed": (None, [RESULT_ON_STACK, TO, FROM_STACK, *NO_COMPLEX]),
    "the same dtype is": ("self", [RESULT_ON_STACK, CONTIGUOUS, FROM_STACK, *NO_COMPLEX]),
    "an operator that only raises": (None, [FAILS]),
}


def test_which_argument_may_not_be_complex(tmp_path: Path) -> None:
    found = {name: _refused(tmp_path, *case) for name, (_, *case) in REFUSE_COMPLEX.items()}
    checks = {CHECK: refuses_complex(0)}
    found["a function"] = _refused(tmp_path, [PASS_ON, Call(CHECK), RETURN], functions=checks)
    found["the kernel of a stub"] = _refused(tmp_path, CALLS_STUB, functions=checks, stubs={"op_stub": CHECK})
    arguments = {name: case[0] for name, case in REFUSE_COMPLEX.items()}
    assert found == {
        name: frozenset() if argument is None else {Refusal(argument, COMPLEX, "")}
        for name, argument in {**arguments, "a function": "self", "the kernel of a stub": "self"}.items()
    }


def test_messages(tmp_path: Path) -> None:
    [refusal] = _refused(tmp_path, [*NO_COMPLEX[:-1], Load("op(): not for complex yet", 3), FAILS])
    assert refusal.message == "op(): not for complex yet"
    # getPipelineStateForFunc("matmul_" + scalarToMetalTypeString(self)), of which there are two.
    steps = [PASS_ON, Call(TYPE_NAME), Load("matmul_", 2), Call(LOOK_UP), RETURN]
    kernels = ("matmul_float", "matmul_half")
    [refusal] = _refused(tmp_path, steps, functions={TYPE_NAME: [RETURN]}, kernels=kernels)
    assert refusal.message == "no Metal kernel 'matmul_{}'"
    assert {"bool", "int32", "complex64"} <= refusal.dtypes
    assert refusal.dtypes.isdisjoint({"float32", "float16"})


NORMS = ("norm_looped_i32_float", "norm_looped_i32_half", "norm_row_i32_float", "norm_row_i32_half")
DISPATCH = "__ZN2at3mps26dispatch_sync_with_rethrowEPU28objcproto17OS_dispatch_queue8NSObjectU13block_pointerFvvE"
STORED = Words((0xF9001FE2,))  # str x2, [sp, #56]
LOADED = Words((0xF9401FE2,))  # ldr x2, [sp, #56]
IN_BLOCK = [Words((0xF9401000,)), *refuses_complex(0)]  # ldr x0, [x0, #32]


def test_a_name_that_is_put_together_of_several_parts(tmp_path: Path) -> None:
    functions = {TYPE_NAME: [RETURN]}
    steps = [PASS_ON, Call(TYPE_NAME), Load("norm_{}_{}_{}", 2), Call(LOOK_UP), RETURN]
    [refusal] = _refused(tmp_path, steps, functions=functions, kernels=NORMS)
    assert refusal.message == "no Metal kernel 'norm_{}_{}_{}'"
    assert {"bool", "int32", "bfloat16"} <= refusal.dtypes
    assert refusal.dtypes.isdisjoint({"float32", "float16"})
    # One of them does not tell of a dtype: it may serve all.
    assert not _refused(tmp_path, steps, functions=functions, kernels=(*NORMS, "norm_row_i32_all"))
    # The next name has no dtype in it that was asked for.
    steps[-1:] = [Load("offsets_{}", 2), Call(LOOK_UP), RETURN]
    [refusal] = _refused(tmp_path, steps, functions=functions, kernels=(*NORMS, "offsets_int"))
    assert "float32" not in refusal.dtypes


def test_what_the_names_of_kernels_show_is_not_said_again(tmp_path: Path) -> None:
    steps = [PASS_ON, Call(TYPE_NAME), *formatted("norm_{}_{}_{}"), Call(LOOK_UP), RETURN]
    facts = _facts(tmp_path, steps, functions={TYPE_NAME: [RETURN]}, kernels=NORMS)
    assert facts.operators["aten::op"] == {"named:norm_{}_{}_{}"}
    assert facts.kernels["norm_{}_{}_{}"] == {"float", "half"}
    assert "aten::op" not in facts.refusals


def test_what_a_call_leaves_as_it_was(tmp_path: Path) -> None:
    """A function that writes to its own frame; one that the compiler moved out, with an address left in ``x8``."""
    writes = {CHECK: [Words((0x910003E0,)), Call("__ZN2at6TensoraSERKS0_"), RETURN]}  # mov x0, sp; operator=
    steps = [STORED, PASS_ON, Call(CHECK), LOADED, *NO_COMPLEX]
    assert {refusal.argument for refusal in _refused(tmp_path, steps, functions=writes)} == {"self"}
    moved = f"{F}.cold.1"
    steps = [
        *[Address(BLOCK, 9), Words((0xF9000BE9, 0xF90013E2))],  # str x9, [sp, #16]; str x2, [sp, #32]
        *[Words((0x910003E8,)), Call(moved)],  # mov x8, sp
        *[Words((0x910003E1,)), Call(DISPATCH), RETURN],  # mov x1, sp
    ]
    functions = {moved: [RETURN], BLOCK: IN_BLOCK}
    assert {refusal.argument for refusal in _refused(tmp_path, steps, functions=functions)} == {"self"}


def test_which_dtypes_are_refused(tmp_path: Path) -> None:
    wrong = []
    for name, steps, refused, taken in (
        # The counter of the loop before the return is not what it was in the first round.
        ("a loop", [load(FIRST, DTYPE_AT), compare(6), jump(2, EQ), FAILS, *COUNTING, RETURN], {"bool"}, {"float32"}),
        # A way that lies behind the rest and comes back to it is not a loop.
        ("a jump back", [load(FIRST, DTYPE_AT), compare(6), jump(3, LS), FAILS, RETURN, jump(-1)], {"bool"}, {"int64"}),
        (
            "a switch with a jump in it",
            [load(FIRST, DTYPE_AT), subtract(5), compare(1), jump(2, LS), FAILS, RETURN],
            {"int64", "bool", "bfloat16"},
            {"float16", "float32"},
        ),
    ):
        [refusal] = _refused(tmp_path, steps)
        if not refused <= refusal.dtypes or taken & refusal.dtypes:
            wrong.append((name, refusal))
    assert not wrong, wrong


GRAPHS: dict[str, tuple[list[Step], set[str]]] = {
    "always": (OPERAND, {GRAPH, EMPTY}),
    "returns early": ([*RETURNS_EARLY, *OPERAND], {GRAPH}),
    "not always": ([*UNLESS_UNKNOWN, *OPERAND], set()),
    "never": ([RETURN], set()),
    "raises": ([FAILS], set()),
    "on an old macOS": ([Call(NEW_MACOS), jump_if_zero(2, 0), jump(2), RETURN, *OPERAND], {GRAPH, EMPTY}),
    "raises when empty": ([*RETURNS_EARLY[:2], jump(2), FAILS, *OPERAND], {GRAPH}),
}


def test_what_a_kernel_makes_of_its_tensors(tmp_path: Path) -> None:
    known = {name: _facts(tmp_path, steps).graphs.get("aten::op", set()) for name, (steps, _) in GRAPHS.items()}
    assert known == {name: expected for name, (_, expected) in GRAPHS.items()}
    asks_for_the_result = [load(OUT, COUNT_AT), *RETURNS_EARLY[1:], *OPERAND]
    assert _facts(tmp_path, asks_for_the_result, WITH_OUT).graphs["aten::op"] == {GRAPH, EMPTY_INPUTS}


def test_factors_are_not_zero(tmp_path: Path) -> None:
    """``if (alpha == 0) { return; }`` before a graph: ``fcmp d0, #0.0``."""
    steps = [Words((0x1E602008,)), jump(2, 1), RETURN, *OPERAND]
    numbers = {"Scalar alpha=1": True, "Scalar value": False, "float p=0.": False}
    graphs = {number: _facts(tmp_path, steps, f"op(Tensor self, {number}) -> Tensor").graphs for number in numbers}
    assert {number: GRAPH in found.get("aten::op", ()) for number, found in graphs.items()} == numbers


NAMES = ("exp_dense_float_float", "add_dense_float_float", "add_dense_half_half", "scan_float", "scan_long")
COPY, CONVERT = Call(operator_call("copy_")), Call(operator_call("to_dtype"))
# Its name is not known: any but those of others. ``exp`` is asked for by its name, with one operand: ``add`` is meant.
UNNAMED: list[Step] = [Words((0xD2800002,)), Call(BINARY)]
NO_INTEGERS = COMPLEX | {"uint16", "uint32", "uint64", "int64"}


def test_what_a_kernel_lacks_that_copies_too(tmp_path: Path) -> None:
    wrong = []
    for name, steps, schema, argument, lacks, has in (
        ("two operands", binary("add"), TWO, EVERY, NO_INTEGERS, {"float32", "float16"}),
        ("that are converted", [CONVERT, *binary("add")], TWO, EVERY, COMPLEX, {"int64", "uint32"}),
        ("one operand", unary("exp"), ONE, "self", COMPLEX, {"int64", "float16"}),
        ("another kernel", [*formatted("scan_{}"), Call(LOOKUP)], TWO, "self", COMPLEX, {"int64", "bool"}),
        ("not known", UNNAMED, TWO, EVERY, {"uint32"}, {"float32", "float16"}),
    ):
        [refusal] = _facts(tmp_path, [COPY, *steps, RETURN], schema, kernels=NAMES).refusals["aten::calls"]
        named = refusal.message.startswith("no Metal kernel '") if steps != UNNAMED else not refusal.message
        if refusal.argument != argument or not lacks <= refusal.dtypes or has & refusal.dtypes or not named:
            wrong.append((name, refusal))
    assert not wrong, wrong
    for other in ("mul_out", "sum"):  # another operator computes
        steps = [Call(operator_call(other)), *binary("add"), RETURN]
        assert "aten::calls" not in _facts(tmp_path, steps, TWO, kernels=NAMES).refusals
