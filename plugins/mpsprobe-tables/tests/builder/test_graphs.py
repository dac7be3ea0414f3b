"""Which kernels always make an operand of a graph, and which dtypes a kernel that also copies lacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from made_code import CHECK_FAIL, RETURN, TOO_MANY, jump, jump_if, jump_if_zero, load_count
from made_kernels import LOOKUP, binary, formatted, kernel_library, native, operator_call, unary
from made_library import Call, Step, Words, definitions
from made_library import Load as Text

from mpsprobe_coverage.kernels.kernel_facts import EMPTY, EMPTY_INPUTS, EVERY, GRAPH, KernelFacts, Refusal
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


@pytest.mark.parametrize(
    ("steps", "known"),
    [
        (OPERAND, {GRAPH, EMPTY}),
        ([*_early_return(SELF), *OPERAND], {GRAPH}),
        ([UNKNOWN, jump_if_zero(2), jump(2), RETURN, *OPERAND], set()),
        ([RETURN], set()),
        ([Call(CHECK_FAIL)], set()),
        ([Call(NEW_MACOS), jump_if_zero(2, 0), jump(2), RETURN, *OPERAND], {GRAPH, EMPTY}),
        ([*_early_return(SELF)[:2], jump(2), Call(CHECK_FAIL), *OPERAND], {GRAPH}),
    ],
    ids=["always", "returns early", "not always", "never", "raises", "on an old macOS", "raises when empty"],
)
def test_what_a_kernel_makes_of_its_tensor(tmp_path: Path, steps: list[Step], known: set[str]) -> None:
    assert _facts(tmp_path, steps).graphs.get("aten::op", frozenset()) == known


def test_an_early_return_that_asks_for_the_result(tmp_path: Path) -> None:
    facts = _facts(tmp_path, [*_early_return(OUT), *OPERAND], "op(Tensor self, *, Tensor(a!) out) -> Tensor(a!)")
    assert facts.graphs["aten::op"] == {GRAPH, EMPTY_INPUTS}


@pytest.mark.parametrize(
    ("number", "known"), [("Scalar alpha=1", True), ("Scalar value", False), ("float p=0.", False)]
)
def test_factors_are_not_zero(tmp_path: Path, number: str, known: bool) -> None:
    """``if (alpha == 0) { return; }`` before a graph: ``fcmp d0, #0.0``."""
    steps = [Words((0x1E602008,)), jump_if(1, 2), RETURN, *OPERAND]
    graphs = _facts(tmp_path, steps, f"op(Tensor self, {number}) -> Tensor").graphs
    assert (GRAPH in graphs.get("aten::op", ())) is known


NAMES = ("exp_dense_float_float", "add_dense_float_float", "add_dense_half_half", "scan_float", "scan_long")
COPY: list[Step] = [Call(operator_call("copy_"))]
CONVERT: list[Step] = [Call(operator_call("to_dtype"))]
TWO = "op(Tensor self, Tensor other) -> Tensor"


@pytest.mark.parametrize(
    ("steps", "schema", "argument", "lacks", "has"),
    [
        ([*COPY, *binary("add")], TWO, EVERY, COMPLEX | UNSIGNED | {"int64"}, {"float32", "float16"}),
        ([*COPY, *CONVERT, *binary("add")], TWO, EVERY, COMPLEX, {"int64", "uint32"}),
        ([*COPY, *unary("exp")], "op(Tensor self) -> Tensor", "self", COMPLEX, {"int64", "float16"}),
        ([*COPY, *formatted("scan_{}"), Call(LOOKUP)], TWO, "self", COMPLEX, {"int64", "bool"}),
    ],
    ids=["two operands", "that are converted", "one operand", "another kernel"],
)
def test_what_a_kernel_lacks_that_copies_too(
    tmp_path: Path, steps: list[Step], schema: str, argument: str, lacks: set[str], has: set[str]
) -> None:
    (refusal,) = _facts(tmp_path, [*steps, RETURN], schema, NAMES).refusals["aten::calls"]
    assert refusal.argument == argument
    assert lacks <= refusal.dtypes
    assert refusal.dtypes.isdisjoint(has)
    assert refusal.message.startswith("no Metal kernel '")


def test_a_name_that_is_not_known_may_be_that_of_any_kernel_but_those_of_others(tmp_path: Path) -> None:
    """``exp`` is asked for by its name, with one operand; so only ``add`` can be meant."""
    unknown: list[Step] = [Words((0xD2800002,)), Call(binary("add")[1].symbol)]  # type: ignore[attr-defined]
    (refusal,) = _facts(tmp_path, [*COPY, *unknown, RETURN], TWO, NAMES).refusals["aten::calls"]
    assert refusal == Refusal(EVERY, refusal.dtypes, "")
    assert refusal.dtypes.isdisjoint({"float32", "float16"})
    assert "uint32" in refusal.dtypes


@pytest.mark.parametrize("other", ["mul_out", "sum"])
def test_nothing_is_said_where_another_operator_computes(tmp_path: Path, other: str) -> None:
    steps = [Call(operator_call(other)), *binary("add"), RETURN]
    assert "aten::calls" not in _facts(tmp_path, steps, TWO, NAMES).refusals
