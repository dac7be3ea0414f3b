"""Refusals by what is known of single kernels: from the files of the package, and from facts that a test makes up."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from judged_calls import Nms, Program, Refused, Taken, judgements, made, not_native, places, wrong
from torch.nn import functional

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import spec_of
from mpsprobe_coverage.knowledge.judging import metal, stub
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.judging.metal import MetalKernels
from mpsprobe_coverage.knowledge.kernels.kernel_facts import (
    EMPTY,
    GRAPH,
    KernelFacts,
    Refusal,
    facts_releases,
    load_facts,
)
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import torch_releases

aten = torch.ops.aten
HYPOT = aten.hypot.default
BF16, HALF, FLOAT, DOUBLE, COMPLEX = torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.complex64
BOOL, BYTE, INT, LONG = torch.bool, torch.uint8, torch.int32, torch.int64
FP8 = torch.float8_e4m3fn
INT_MAX = 2**31 - 1


def _of(function: Callable[..., Any], dtype: torch.dtype, *shape: int, tensors: int = 1) -> Program:
    return lambda: function(*[made(*shape or (4,), dtype=dtype)] * tensors)


def _enlarged(operator: str) -> Program:
    return _of(lambda image: getattr(aten, operator)(image, [8, 8], False), BYTE, 1, 1, 4, 4)


def _normed(dtype: torch.dtype) -> Program:
    return lambda: aten.native_layer_norm(made(2, 4, dtype=dtype), [4], None, None, 1e-5)


def _put(elements: int) -> Program:
    few = min(elements, 1)
    return lambda: made(elements).put_(places(few), made(few))


def _long(dimension: int) -> Program:
    return lambda: torch.randint(0, 9, (dimension,), dtype=BYTE, device="mps")


METAL: list[Refused] = [
    ("2.13.0", _of(torch.hypot, INT, tensors=2), "hypot", "no Metal kernel 'hypot' for int32", None),
    ("2.8.0 2.13.0", _of(torch.erf, COMPLEX), "erf", "no Metal kernel 'erf' for complex64", None),
    ("2.15.0", _of(torch.igamma, LONG, tensors=2), "igamma", "no Metal kernel 'igamma' for int64", None),
    ("2.13.0", _enlarged("upsample_bicubic2d"), "", "no Metal kernel 'upsample_bicubic2d_{}' for uint8", None),
]
SWITCHES: list[Refused] = [
    ("2.10.0", _of(torch.histc, INT), "histc", "\"histogram_mps\" not implemented for ('self': int32)", "2.13.0"),
    ("2.10.0", _of(torch.histc, HALF), "histc", "float16", "2.12.0"),
    ("2.15.0", _of(torch.mm, BOOL, 2, 2, tensors=2), "mm", "no Metal kernel 'matmul_{}'", None),
    ("2.12.1 2.13.0", _normed(INT), "native_layer_norm", "its kernel raises for int32 ('input')", None),
    ("2.14.0 2.15.0", _normed(INT), "native_layer_norm", "no Metal kernel 'layer_norm_{}_{}_{}'", None),
    ("2.4.1", lambda: torch.arange(4, dtype=BF16, device="mps"), "arange", '"arange_mps" not implemented for', "2.6.0"),
    ("2.13.0", _of(torch.bmm, BOOL, 1, 2, 2, tensors=2), "bmm", "no Metal kernel", None),
    ("2.1.2", _of(torch.mul, COMPLEX, tensors=2), "mul", "Complex types are unsupported on MPS", "2.2.0"),
    ("2.2.2", _of(torch.div, COMPLEX, tensors=2), "div", "Complex types are unsupported on MPS", "2.3.0"),
    ("2.5.1 2.9.1 2.13.0 2.14.1", _of(lambda x: x.to(BF16), FP8), "copy_", "float8", "2.15.0"),
]
STUB: list[Refused] = [("1.13.1", _put(3), "put_", "DispatchStub: missing kernel for mps (put_stub)", "2.15.0")]
NO_ELEMENTS = "Placeholder tensor is empty!"
GRAPHS: list[Refused] = [
    ("2.1.2", lambda: made(0).sort(), "", NO_ELEMENTS, "2.2.0"),
    ("2.2.2", lambda: made(0, 3).relu(), "", NO_ELEMENTS, "2.3.0"),
    ("2.4.1", _of(functional.mse_loss, FLOAT, 0, tensors=2), "", NO_ELEMENTS, "2.7.0"),
    ("2.4.1", lambda: functional.nll_loss(made(2, 3, 0, 7), made(2, 0, 7, dtype=LONG)), "", NO_ELEMENTS, "2.6.0"),
    ("2.7.1 2.8.0", _long(INT_MAX + 1), "", "ends the process", "2.13.0"),
    ("2.9.0 2.12.1", _long(INT_MAX + 1), "", "MPSGraph does not", "2.13.0"),
]
NATIVE: list[Taken] = [
    *(("2.13.0", _of(torch.exp, dtype), "exp") for dtype in (FLOAT, HALF, BF16, LONG, BOOL)),
    ("2.13.0", lambda: torch.mul(made(3, dtype=INT), made(3)), "mul.Tensor"),  # two dtypes are converted
    ("2.13.0", _enlarged("upsample_bilinear2d"), ""),
    ("2.13.0", _of(torch.hypot, INT, 0, tensors=2), "hypot"),  # without elements no kernel is asked for
    *(("2.10.0", _of(torch.histc, FLOAT), "histc"), ("2.13.0", _of(torch.histc, INT), "histc")),
    ("2.15.0", _of(torch.mm, LONG, 2, 2, tensors=2), "mm"),
    ("2.9.1", _of(lambda x: x.cumsum(0), COMPLEX, 0), "cumsum"),
    ("2.1.2", _of(torch.add, COMPLEX, tensors=2), "add"),
    *(("2.12.1 2.13.0 2.14.0 2.15.0", _normed(dtype), "native_layer_norm") for dtype in (FLOAT, HALF, BF16)),
    ("2.9.1", lambda: torch.ones(4).to(FP8).to("mps"), ""),  # a copy of bytes: nothing is converted on the device
    ("1.13.1", _put(0), "put_"),
]


@pytest.mark.parametrize(
    ("judge", "rows"), [("metal", METAL), ("switches", SWITCHES), ("stub", STUB), ("graphs", GRAPHS)]
)
def test_what_is_refused(judge: str, rows: list[Refused]) -> None:
    assert not wrong(judge, rows, **({} if judge == "graphs" else {"lists": "none"}))


def test_what_is_not() -> None:
    assert not not_native(NATIVE, lists="none")


def test_where_it_is_known_from() -> None:
    [of_metal] = judgements("2.8.0", _of(torch.erf, COMPLEX), "erf", lists="none")
    assert of_metal.source == "metal" and "torch 2.8.0 has it for bfloat16, " in str(of_metal.evidence)
    [of_stub] = judgements("1.13.1", _put(3), "put_")
    assert of_stub.source == "stub"
    assert of_stub.evidence == "nothing sets the MPS kernel of put_stub in torch 1.13.1"


TAKEN_BY_GRAPHS: list[tuple[str, Program]] = [
    ("2.1.2", lambda: made(4)[:0].sort()),  # an empty view may lie in a buffer that is not
    ("2.4.1", lambda: functional.gelu(made(0))),  # the result is empty, and the kernel returns early
    ("2.4.1", lambda: functional.gelu(made(4))),
    ("2.7.1", _long(INT_MAX)),
    ("2.13.0", _of(torch.exp, HALF, INT_MAX + 1)),  # a kernel that makes no graph
]


@pytest.mark.parametrize("inference", [False, True])
def test_what_graphs_take(inference: bool) -> None:
    with torch.inference_mode(inference):
        assert "graphs" not in [one.asked[-1] for row in TAKEN_BY_GRAPHS for one in judgements(*row)]


def test_kernels_of_torchvision_are_for_two_dtypes() -> None:
    [rule] = metal.rules_of("torchvision::nms", load_table("2.15.0"))

    def asked(dtype: torch.dtype) -> Judgement | None:
        boxes, scores = torch.ones(3, 4, dtype=dtype), torch.ones(3, dtype=dtype)
        specs = (spec_of(boxes), spec_of(scores))
        return rule(Call(Nms, (boxes, scores, 0.5), {}, specs, specs[1:]))

    assert asked(FLOAT) is None and asked(HALF) is None
    refused = asked(BF16)
    assert refused is not None and (refused.verdict, refused.accepted_since) == ("unsupported", None)
    assert refused.reason == "no Metal kernel 'nms_{}' for bfloat16"
    assert refused.evidence == "torchvision has it for float16, float32"


Known = Callable[..., None]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    """Sets what is known of a release: an operator, its kernels, and the types of those."""
    facts: dict[str, KernelFacts] = {}
    monkeypatch.setattr(metal, "load_facts", facts.get)
    monkeypatch.setattr(metal, "facts_releases", lambda: tuple(sorted(facts, key=torch_releases().index)))
    monkeypatch.setattr(metal, "_kernels", metal._kernels.__wrapped__)
    monkeypatch.setattr(metal, "_taken_since", metal._taken_since.__wrapped__)

    def make(release: str, types: str, *kernels: str, operator: str = "aten::hypot") -> None:
        known = kernels or ("binary:hypot",)
        types_of = {kernel.partition(":")[2]: frozenset(types.split()) for kernel in known}
        facts[release] = KernelFacts(release, "", types_of, {operator: frozenset(known)})

    return make


def _asked(release: str, *operands: torch.dtype | float, made_of: torch.dtype | None = None) -> Judgement | None:
    """What ``hypot`` of these operands meets."""
    [rule] = metal.rules_of("aten::hypot", load_table(release))
    values = [torch.ones(2, dtype=one) if isinstance(one, torch.dtype) else one for one in operands]
    specs = tuple(spec_of(one) for one in values if isinstance(one, torch.Tensor))
    result = specs[:1] if made_of is None else (spec_of(torch.ones(2, dtype=made_of)),)
    return rule(Call(HYPOT, tuple(values), {}, specs, result))


@pytest.mark.parametrize(
    ("types", "kernels", "operands", "reason"),
    [
        ("half cast:float", "binary:hypot", (FLOAT, FLOAT), "'hypot' for float32"),  # it converts for two dtypes only
        ("half cast:float", "binary:hypot", (HALF, HALF), None),
        ("half cast:float", "binary:hypot", (HALF, FLOAT), None),
        ("half cast:float", "binary:hypot", (INT, INT), "'hypot' for int32"),
        ("half", "binary:hypot", (FLOAT, 2.0), None),  # a number in the place of a tensor is not judged
        ("half", "binary:hypot", (FLOAT, FLOAT), "'hypot' for float32"),
        ("half", "binary:hypot", (DOUBLE, DOUBLE), None),  # nor what Metal does not have
        ("half", "ternary:hypot", (FLOAT, FLOAT), None),  # nor another number of operands
        ("half", "binary:hypot binary:other", (HALF, HALF), None),  # one of several kernels is enough
        ("half", "binary:hypot binary:other", (FLOAT, FLOAT), "'hypot or other' for float32"),
    ],
)
def test_a_kernel_of_these_types(known: Known, types: str, kernels: str, operands: Any, reason: str | None) -> None:
    known("2.13.0", types, *kernels.split())
    refused = _asked("2.13.0", *operands)
    assert (refused and refused.reason) == (reason and f"no Metal kernel {reason}")


def test_since_when_a_release_takes_it(known: Known) -> None:
    for release, types in (("2.9.0", "half"), ("2.12.0", "half"), ("2.13.0", "half int"), ("2.14.0", "int")):
        known(release, types)
    refused, never = _asked("2.9.0", INT, INT), _asked("2.12.0", FLOAT, FLOAT)
    assert refused is not None and refused.accepted_since == "2.13.0"
    assert never is not None and never.accepted_since is None
    assert _asked("2.13.0", INT, INT) is None
    known("2.14.0", "int", "unary:exp", operator="aten::exp")  # a release of which nothing is known
    refused = _asked("2.9.0", INT, INT)
    assert refused is not None and refused.accepted_since is None


def test_whole_numbers_have_results_of_float32_alone(known: Known) -> None:
    known("2.8.0", "long bfloat")
    assert _asked("2.8.0", LONG, LONG, made_of=FLOAT) is None and _asked("2.8.0", LONG, LONG) is None
    refused = _asked("2.8.0", LONG, LONG, made_of=BF16)
    assert refused is not None and refused.reason == "no Metal kernel 'hypot' for a result of bfloat16"


def test_kernels_of_one_operand_convert_their_result_from_2_13_on() -> None:
    read, result = torch.ones(2, dtype=LONG), torch.ones(2, dtype=BF16)
    for release, refuses in (("2.12.1", True), ("2.13.0", False)):
        [rule] = metal.rules_of("aten::exp.out", load_table(release))
        call = Call(aten.exp.out, (read,), {"out": result}, (spec_of(read),), (spec_of(result),))
        assert (rule(call) is not None) is refuses


def test_rules_that_refuse_the_same_are_equal() -> None:
    one = MetalKernels(1, frozenset({"float"}), False, ("exp",), "aten::exp", "2.12.0")
    assert one == MetalKernels(1, frozenset({"float"}), False, ("exp2",), "aten::exp2", "2.13.0")
    assert one != MetalKernels(1, frozenset({"float", "half"}), False, ("exp",), "aten::exp", "2.12.0")
    assert one != MetalKernels(1, frozenset({"float"}), True, ("exp",), "aten::exp", "2.12.0")
    assert one.taken == {FLOAT}
    [rule] = stub.rules_of("aten::put_", load_table("1.13.1"))
    assert rule.dtypes is None and stub.rules_of("aten::put_", load_table("1.13.0")) == (rule,)


def test_since_when_a_release_has_a_stub(monkeypatch: pytest.MonkeyPatch) -> None:
    """``hypot`` is registered from 2.9.0 on."""
    unset = {"2.9.0": True, "2.9.1": False, "2.10.0": True, "2.11.0": False, "2.12.0": False}
    operators = ("aten::hypot", "aten::no_such_operator")
    known = {False: {}, True: dict.fromkeys(operators, frozenset({"stub:hypot_stub"}))}
    monkeypatch.setattr(stub, "load_facts", lambda release: KernelFacts(release, "", {}, known[unset[release]]))
    monkeypatch.setattr(stub, "facts_releases", lambda: tuple(unset))
    for operator, since in zip(operators, ("2.11.0", None), strict=True):
        [rule] = stub.rules_of(operator, load_table("2.9.0"))
        judgement = rule(Call(HYPOT, (), {}, (), ()))
        assert judgement is not None and judgement.accepted_since == since


def test_an_index_of_another_dtype_is_refused_and_not_the_tensor() -> None:
    refusals = {refusal.argument: refusal.dtypes for refusal in load_facts("2.9.1").refusals["aten::index_select"]}
    assert "int16" in refusals["index"]
    assert "int64" not in refusals["index"]
    assert "float32" not in refusals.get("self", frozenset())


def test_a_refusal_is_read_back_as_it_was_written() -> None:
    refusal = Refusal("self", frozenset({"bool", "int8"}), "op(): bool: not yet")
    assert Refusal.parsed(str(refusal)) == refusal


TAKES_NO_FLOATS = """_convert_weight_to_int4pack _fft_c2c _fft_c2c.out _fft_c2r _int_mm _int_mm.out _scaled_mm_v2
    _scaled_mm_v2.out bincount conj_physical.out view_as_real"""
OF_WHOLE_NUMBERS = re.compile(r"aten::(bitwise_|__i?[lr]shift__|gcd|lcm|tri[lu]_indices)")


def test_no_release_refuses_float32_but_to_what_takes_no_floats() -> None:
    """What is refused is named, so that a mistake of the reader shows."""
    by_code, by_metal = set(), set()
    for release in facts_releases():
        table = load_table(release)
        by_code |= {
            operator.removeprefix("aten::")
            for operator, refusals in load_facts(release).refusals.items()
            if any(one.argument == "self" and "float32" in one.dtypes for one in refusals)
        }
        by_metal |= {
            one for one in table.operators for rule in metal.rules_of(one, table) if FLOAT in (rule.dtypes or ())
        }
    assert by_code <= {*TAKES_NO_FLOATS.split()}
    assert not [operator for operator in by_metal if not OF_WHOLE_NUMBERS.match(operator)]


def test_graphs_are_known_of_kernels_that_there_are() -> None:
    for release in facts_releases():
        graphs = load_facts(release).graphs
        assert graphs.keys() <= load_table(release).native, release
        assert {GRAPH, EMPTY} <= frozenset[str]().union(*graphs.values()), release


def test_torchvision_has_no_stubs() -> None:
    table = load_table("0.28.0", "torchvision")
    assert not any(stub.rules_of(operator, table) for operator in table.operators)
