"""Which dtypes a kernel refuses, in libraries that are made instruction by instruction."""

from __future__ import annotations

from collections.abc import Sequence
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
COMPLEX = frozenset({"complex32", "complex64"})  # complex128 is refused everywhere


def _refused(
    folder: Path,
    steps: Sequence[Step],
    schema: str = "op(Tensor self) -> Tensor",
    functions: dict[str, Sequence[Step]] | None = None,
    stubs: dict[str, str | None] | None = None,
    kernels: Sequence[str] = (),
) -> frozenset[Refusal]:
    """What an operator that does ``steps`` refuses."""
    library = kernel_library({"op": steps}, {BEGINS: TOO_MANY, **(functions or {})}, stubs, kernels)
    library.functions[definitions("aten")] = [Load(schema)]
    path = folder / "library.dylib"
    path.write_bytes(library.build())
    return read_facts(MachO(path), "2.13.0", "c0ffee").refusals.get("aten::op", frozenset())


def _of(*refusals: Refusal) -> frozenset[Refusal]:
    return frozenset(refusals)


def test_a_range_of_dtypes_that_raises(tmp_path: Path) -> None:
    assert _refused(tmp_path, refuses_complex(FIRST)) == _of(Refusal("self", COMPLEX, ""))


def test_the_message_is_kept(tmp_path: Path) -> None:
    steps = [*refuses_complex(FIRST)[:-1], Load("op(): not for complex yet", 3), Call(CHECK_FAIL)]
    assert {refusal.message for refusal in _refused(tmp_path, steps)} == {"op(): not for complex yet"}


def test_a_way_round_the_check_refuses_nothing(tmp_path: Path) -> None:
    """Something else than the dtype is asked first, and returns."""
    steps = [Words((0xF9400028,)), jump_if_zero(2), jump(2), RETURN, *refuses_complex(FIRST)]  # ldr x8, [x1]
    assert _refused(tmp_path, steps) == frozenset()


def test_an_early_return_without_elements_does_not_count(tmp_path: Path) -> None:
    steps = [load_count(FIRST), jump_if_zero(2), jump(2), RETURN, *refuses_complex(FIRST)]
    assert _refused(tmp_path, steps) == _of(Refusal("self", COMPLEX, ""))


def test_each_argument_is_followed_by_itself(tmp_path: Path) -> None:
    found = _refused(tmp_path, refuses_complex(SECOND), "op(Tensor self, Tensor index) -> Tensor")
    assert found == _of(Refusal("index", COMPLEX, ""))


def test_numbers_before_an_argument_take_registers(tmp_path: Path) -> None:
    schema = "op(int[] size, Tensor self) -> Tensor"  # an ArrayRef is a pointer and a length
    assert _refused(tmp_path, refuses_complex(FIRST + 2), schema) == _of(Refusal("self", COMPLEX, ""))


def test_what_only_all_tensors_together_show(tmp_path: Path) -> None:
    """A branch to either check, on something that is not known: one of the two tensors raises in any case."""
    first = refuses_complex(FIRST)
    steps = [Words((0xF9400028,)), jump_if_zero(8), *first, *refuses_complex(SECOND)]
    found = _refused(tmp_path, steps, "op(Tensor self, Tensor other) -> Tensor")
    assert found == _of(Refusal(EVERY, COMPLEX, ""))


def test_a_function_that_is_called_with_the_tensor(tmp_path: Path) -> None:
    helper = native("check")
    steps = [Words((0xAA0203E0,)), Call(helper), RETURN]  # mov x0, x2
    found = _refused(tmp_path, steps, functions={helper: refuses_complex(0)})
    assert found == _of(Refusal("self", COMPLEX, ""))


def test_the_kernel_of_a_stub(tmp_path: Path) -> None:
    kernel = native("op_mps_kernel")
    steps = [Words((0xAA0203F3,)), Address(stub("op_stub")[0], 0), Call(CALL_STUB)]  # mov x19, x2
    steps += [Words((0xAA0003E8, 0xAA1303E0, 0xD63F0100)), RETURN]  # mov x8, x0; mov x0, x19; blr x8
    found = _refused(tmp_path, steps, functions={kernel: refuses_complex(0)}, stubs={"op_stub": kernel})
    assert found == _of(Refusal("self", COMPLEX, ""))


def test_a_loop_does_not_make_a_dtype_refused(tmp_path: Path) -> None:
    """``for (i = 0; i < 3; ++i)`` before the return: the counter is not what it was in the first round."""
    count = [Words((0x52800009,)), Words((0x11000529,)), compare(3, 9), jump_if(11, -2)]  # mov w9, #0; add w9, w9, #1
    steps = [load_dtype(FIRST), compare(6), jump_if(EQ, 2), Call(CHECK_FAIL), *count, RETURN]
    found = _refused(tmp_path, steps)
    assert len(found) == 1
    assert "float32" not in next(iter(found)).dtypes


def test_code_that_jumps_back_out_of_line(tmp_path: Path) -> None:
    """A way that lies behind the rest and comes back to it is not a loop."""
    steps = [load_dtype(FIRST), compare(6), jump_if(LS, 3), Call(CHECK_FAIL), RETURN, jump(-1)]
    found = _refused(tmp_path, steps)
    assert "int64" not in next(iter(found)).dtypes
    assert "bool" in next(iter(found)).dtypes


def test_a_tensor_that_is_not_followed_any_more(tmp_path: Path) -> None:
    """``self = self.to(float)`` before the check: the dtype that it has then is not known."""
    to = "__ZN2at4_ops8to_dtype4callERKNS_6TensorE"
    steps: list[Step] = [Words((0xAA0203E0, 0x910003E8)), Call(to), Words((0x910003E2,))]  # x0 = x2; x8 = sp; x2 = sp
    assert _refused(tmp_path, [*steps, *refuses_complex(FIRST)]) == frozenset()


def test_a_tensor_of_the_same_dtype_is_followed(tmp_path: Path) -> None:
    contiguous = "__ZN2at4_ops10contiguous4callERKNS_6TensorE"
    steps: list[Step] = [Words((0xAA0203E0, 0x910003E8)), Call(contiguous), Words((0x910003E2,))]
    assert _refused(tmp_path, [*steps, *refuses_complex(FIRST)]) == _of(Refusal("self", COMPLEX, ""))


def test_a_metal_kernel_that_is_named_after_the_dtype(tmp_path: Path) -> None:
    """``getPipelineStateForFunc("mm_" + scalarToMetalTypeString(self))``, of which there are two."""
    name = "__ZN2at6native3mps23scalarToMetalTypeStringERKNS_10TensorBaseE"
    look_up = "__ZN2at6native3mps18MetalShaderLibrary23getPipelineStateForFuncERKNSt3__112basic_stringE"
    steps = [Words((0xAA0203E0,)), Call(name), Load("matmul_", 2), Call(look_up), RETURN]
    found = _refused(tmp_path, steps, functions={name: [RETURN]}, kernels=("matmul_float", "matmul_half"))
    (refusal,) = found
    assert refusal.message == "no Metal kernel 'matmul_{}'"
    assert {"bool", "int32", "complex64"} <= refusal.dtypes
    assert refusal.dtypes.isdisjoint({"float32", "float16"})


def test_results_that_have_the_dtype_too(tmp_path: Path) -> None:
    schema = "op(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)"
    assert _refused(tmp_path, refuses_complex(OUT), schema) == _of(Refusal(SAME, COMPLEX, ""))


def test_an_operator_that_is_registered_only_to_raise(tmp_path: Path) -> None:
    assert _refused(tmp_path, [Call(CHECK_FAIL)]) == frozenset()


def test_a_switch_with_a_jump_in_it(tmp_path: Path) -> None:
    steps = [load_dtype(FIRST), subtract(5), compare(1), jump_if(LS, 2), Call(CHECK_FAIL), RETURN]
    (refusal,) = _refused(tmp_path, steps)
    assert refusal.dtypes.isdisjoint({"float16", "float32"})
    assert {"int64", "bool", "bfloat16"} <= refusal.dtypes
