"""Which dtypes a kernel refuses, in libraries that are made instruction by instruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from made_code import (
    CHECK_FAIL,
    EQ,
    LS,
    RETURN,
    TOO_MANY,
    compare,
    jump,
    jump_if,
    jump_if_zero,
    load_count,
    load_dtype,
    refuses_complex,
    subtract,
)
from made_kernels import CALL_STUB, kernel_library, native, stub
from made_library import Address, Call, Load, Step, Words, definitions

from mpsprobe_coverage.kernels.kernel_facts import EVERY, SAME, Refusal
from mpsprobe_tables.builder.facts import read_facts
from mpsprobe_tables.builder.macho import MachO

FIRST, SECOND, OUT = 2, 3, 4  # registers: the functor and the dispatch keys come before the arguments
BEGINS = "__ZN2at6native3mps5firstERKNS_6TensorE"
TO = "__ZN2at4_ops8to_dtype4callERKNS_6TensorE"
CONTIGUOUS = "__ZN2at4_ops10contiguous4callERKNS_6TensorE"
TYPE_NAME = "__ZN2at6native3mps23scalarToMetalTypeStringERKNS_10TensorBaseE"
LOOK_UP = "__ZN2at6native3mps18MetalShaderLibrary23getPipelineStateForFuncERKNSt3__112basic_stringE"
COMPLEX = frozenset({"complex32", "complex64"})  # complex128 is refused everywhere
UNKNOWN = Words((0xF9400028,))  # ldr x8, [x1]
PASS_ON = Words((0xAA0203E0,))  # mov x0, x2
RESULT_ON_STACK = Words((0xAA0203E0, 0x910003E8))  # mov x0, x2; mov x8, sp
FROM_STACK = Words((0x910003E2,))  # mov x2, sp
COUNTING = [Words((0x52800009,)), Words((0x11000529,)), compare(3, 9), jump_if(11, -2)]  # mov w9, #0; add w9, w9, #1
CALLS_STUB: list[Step] = [
    *[Words((0xAA0203F3,)), Address(stub("op_stub")[0], 0), Call(CALL_STUB)],  # mov x19, x2
    *[Words((0xAA0003E8, 0xAA1303E0, 0xD63F0100)), RETURN],  # mov x8, x0; mov x0, x19; blr x8
]


@dataclass(frozen=True)
class Case:
    """What an operator does, and which of its arguments may not be complex: None for no refusal."""

    steps: Sequence[Step]
    argument: str | None = "self"
    schema: str = "op(Tensor self) -> Tensor"
    functions: dict[str, Sequence[Step]] = field(default_factory=dict)
    stubs: dict[str, str | None] = field(default_factory=dict)
    kernels: Sequence[str] = ()


CASES = {
    "a range of dtypes that raises": Case(refuses_complex(FIRST)),
    "a way round the check": Case([UNKNOWN, jump_if_zero(2), jump(2), RETURN, *refuses_complex(FIRST)], None),
    "an early return without elements": Case(
        [load_count(FIRST), jump_if_zero(2), jump(2), RETURN, *refuses_complex(FIRST)]
    ),
    "each argument is followed by itself": Case(
        refuses_complex(SECOND), "index", "op(Tensor self, Tensor index) -> Tensor"
    ),
    "an ArrayRef before an argument is a pointer and a length": Case(
        refuses_complex(FIRST + 2), schema="op(int[] size, Tensor self) -> Tensor"
    ),
    "a branch to either check, on something that is not known: one of the tensors raises": Case(
        [UNKNOWN, jump_if_zero(8), *refuses_complex(FIRST), *refuses_complex(SECOND)],
        EVERY,
        "op(Tensor self, Tensor other) -> Tensor",
    ),
    "results that have the dtype too": Case(
        refuses_complex(OUT), SAME, "op(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)"
    ),
    "a function that is called with the tensor": Case(
        [PASS_ON, Call(native("check")), RETURN], functions={native("check"): refuses_complex(0)}
    ),
    "the kernel of a stub": Case(
        CALLS_STUB, functions={native("kernel"): refuses_complex(0)}, stubs={"op_stub": native("kernel")}
    ),
    "another dtype before the check, which is not followed": Case(
        [RESULT_ON_STACK, Call(TO), FROM_STACK, *refuses_complex(FIRST)], None
    ),
    "a tensor of the same dtype is followed": Case(
        [RESULT_ON_STACK, Call(CONTIGUOUS), FROM_STACK, *refuses_complex(FIRST)]
    ),
    "an operator that is registered only to raise": Case([Call(CHECK_FAIL)], None),
}


def _refused(folder: Path, case: Case) -> frozenset[Refusal]:
    library = kernel_library({"op": case.steps}, {BEGINS: TOO_MANY, **case.functions}, case.stubs, case.kernels)
    library.functions[definitions("aten")] = [Load(case.schema)]
    path = folder / "library.dylib"
    path.write_bytes(library.build())
    return read_facts(MachO(path), "2.13.0", "c0ffee").refusals.get("aten::op", frozenset())


def test_which_argument_may_not_be_complex(tmp_path: Path) -> None:
    expected = {
        name: frozenset() if case.argument is None else {Refusal(case.argument, COMPLEX, "")}
        for name, case in CASES.items()
    }
    assert {name: _refused(tmp_path, case) for name, case in CASES.items()} == expected


def test_the_message_is_kept(tmp_path: Path) -> None:
    steps = [*refuses_complex(FIRST)[:-1], Load("op(): not for complex yet", 3), Call(CHECK_FAIL)]
    assert {refusal.message for refusal in _refused(tmp_path, Case(steps))} == {"op(): not for complex yet"}


def test_which_dtypes_are_refused(tmp_path: Path) -> None:
    wrong = []
    fails = Call(CHECK_FAIL)
    for name, steps, refused, taken in (
        # The counter of the loop before the return is not what it was in the first round.
        ("a loop", [load_dtype(FIRST), compare(6), jump_if(EQ, 2), fails, *COUNTING, RETURN], {"bool"}, {"float32"}),
        # A way that lies behind the rest and comes back to it is not a loop.
        ("a jump back", [load_dtype(FIRST), compare(6), jump_if(LS, 3), fails, RETURN, jump(-1)], {"bool"}, {"int64"}),
        (
            "a switch with a jump in it",
            [load_dtype(FIRST), subtract(5), compare(1), jump_if(LS, 2), fails, RETURN],
            {"int64", "bool", "bfloat16"},
            {"float16", "float32"},
        ),
    ):
        (refusal,) = _refused(tmp_path, Case(steps))
        if not refused <= refusal.dtypes or taken & refusal.dtypes:
            wrong.append((name, refusal))
    assert not wrong, wrong


def test_a_metal_kernel_that_is_named_after_the_dtype(tmp_path: Path) -> None:
    """``getPipelineStateForFunc("matmul_" + scalarToMetalTypeString(self))``, of which there are two."""
    steps = [PASS_ON, Call(TYPE_NAME), Load("matmul_", 2), Call(LOOK_UP), RETURN]
    kernels = ("matmul_float", "matmul_half")
    (refusal,) = _refused(tmp_path, Case(steps, functions={TYPE_NAME: [RETURN]}, kernels=kernels))
    assert refusal.message == "no Metal kernel 'matmul_{}'"
    assert {"bool", "int32", "complex64"} <= refusal.dtypes
    assert refusal.dtypes.isdisjoint({"float32", "float16"})
