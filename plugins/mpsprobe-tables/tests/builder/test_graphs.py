"""Which kernels always make an operand of a graph, and which dtypes a kernel that also copies lacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from made_code import CHECK_FAIL, RETURN, TOO_MANY, jump, jump_if, jump_if_zero, load_count
from made_kernels import BINARY, LOOKUP, binary, formatted, kernel_library, native, operator_call, unary
from made_library import Call, Step, Words, definitions
from made_library import Load as Text

from mpsprobe_coverage.kernels.kernel_facts import EMPTY, EMPTY_INPUTS, EVERY, GRAPH, KernelFacts
from mpsprobe_tables.builder.facts import read_facts
from mpsprobe_tables.builder.macho import MachO

SELF, OUT = 2, 3  # registers
PLACEHOLDER = "__ZN2at6native3mps11PlaceholderC1EP14MPSGraphTensorRKNS_6TensorEP7NSArrayIP8NSNumberEb11MPSDataType"
NEW_MACOS = "__ZN2at3mps20is_macos_13_or_newerENS0_12MacOSVersionE"
UNKNOWN = Words((0xF9400028,))  # ldr x8, [x1]: something that is not known
OPERAND = [Call(PLACEHOLDER), RETURN]
COMPLEX = frozenset({"complex32", "complex64"})
UNSIGNED = frozenset({"uint16", "uint32", "uint64"})


def _facts(
    folder: Path, steps: Sequence[Step], schema: str = "op(Tensor self) -> Tensor", kernels: Sequence[str] = ()
) -> KernelFacts:
    """What is known of an operator that does ``steps``, and of one that calls a function which does."""
    functions: dict[str, Sequence[Step]] = {"__ZN2at6native3mps5firstERKNS_6TensorE": TOO_MANY, native("f"): steps}
    calls = [Call(native("f")), RETURN]
    library = kernel_library({"op": steps, "calls": calls, "exp": unary("exp")}, functions, kernels=kernels)
    library.functions[definitions("aten")] = [Text(schema), Text(schema.replace("op(", "calls("))]
    path = folder / "library.dylib"
    path.write_bytes(library.build())
    return read_facts(MachO(path), "2.13.0", "c0ffee")


def _early_return(tensor: int) -> list[Step]:
    return [load_count(tensor), jump_if_zero(2), jump(2), RETURN]


ASKS: list[Step] = [UNKNOWN, jump_if_zero(2), jump(2), RETURN]
KERNELS: dict[str, tuple[list[Step], set[str]]] = {
    "always": (OPERAND, {GRAPH, EMPTY}),
    "returns early": ([*_early_return(SELF), *OPERAND], {GRAPH}),
    "not always": ([*ASKS, *OPERAND], set()),
    "never": ([RETURN], set()),
    "raises": ([Call(CHECK_FAIL)], set()),
    "on an old macOS": ([Call(NEW_MACOS), jump_if_zero(2, 0), jump(2), RETURN, *OPERAND], {GRAPH, EMPTY}),
    "raises when empty": ([*_early_return(SELF)[:2], jump(2), Call(CHECK_FAIL), *OPERAND], {GRAPH}),
}


def test_what_a_kernel_makes_of_its_tensors(tmp_path: Path) -> None:
    known = {name: _facts(tmp_path, steps).graphs.get("aten::op", set()) for name, (steps, _) in KERNELS.items()}
    assert known == {name: expected for name, (_, expected) in KERNELS.items()}
    facts = _facts(tmp_path, [*_early_return(OUT), *OPERAND], "op(Tensor self, *, Tensor(a!) out) -> Tensor(a!)")
    assert facts.graphs["aten::op"] == {GRAPH, EMPTY_INPUTS}


def test_factors_are_not_zero(tmp_path: Path) -> None:
    """``if (alpha == 0) { return; }`` before a graph: ``fcmp d0, #0.0``."""
    steps = [Words((0x1E602008,)), jump_if(1, 2), RETURN, *OPERAND]
    numbers = {"Scalar alpha=1": True, "Scalar value": False, "float p=0.": False}
    graphs = {number: _facts(tmp_path, steps, f"op(Tensor self, {number}) -> Tensor").graphs for number in numbers}
    assert {number: GRAPH in found.get("aten::op", ()) for number, found in graphs.items()} == numbers


NAMES = ("exp_dense_float_float", "add_dense_float_float", "add_dense_half_half", "scan_float", "scan_long")
COPY: list[Step] = [Call(operator_call("copy_"))]
CONVERT: list[Step] = [Call(operator_call("to_dtype"))]
ONE, TWO = "op(Tensor self) -> Tensor", "op(Tensor self, Tensor other) -> Tensor"
# Its name is not known: any but those of others. ``exp`` is asked for by its name, with one operand: ``add`` is meant.
UNNAMED: list[Step] = [Words((0xD2800002,)), Call(BINARY)]
UNSIGNED_TOO = COMPLEX | UNSIGNED | {"int64"}


def test_what_a_kernel_lacks_that_copies_too(tmp_path: Path) -> None:
    wrong = []
    for name, steps, schema, argument, lacks, has in (
        ("two operands", binary("add"), TWO, EVERY, UNSIGNED_TOO, {"float32", "float16"}),
        ("that are converted", [*CONVERT, *binary("add")], TWO, EVERY, COMPLEX, {"int64", "uint32"}),
        ("one operand", unary("exp"), ONE, "self", COMPLEX, {"int64", "float16"}),
        ("another kernel", [*formatted("scan_{}"), Call(LOOKUP)], TWO, "self", COMPLEX, {"int64", "bool"}),
        ("not known", UNNAMED, TWO, EVERY, {"uint32"}, {"float32", "float16"}),
    ):
        (refusal,) = _facts(tmp_path, [*COPY, *steps, RETURN], schema, NAMES).refusals["aten::calls"]
        named = refusal.message.startswith("no Metal kernel '") if steps != UNNAMED else not refusal.message
        if refusal.argument != argument or not lacks <= refusal.dtypes or has & refusal.dtypes or not named:
            wrong.append((name, refusal))
    assert not wrong, wrong


def test_nothing_is_said_where_another_operator_computes(tmp_path: Path) -> None:
    for other in ("mul_out", "sum"):
        steps = [Call(operator_call(other)), *binary("add"), RETURN]
        assert "aten::calls" not in _facts(tmp_path, steps, TWO, NAMES).refusals
