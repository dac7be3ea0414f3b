"""Refusals for want of a Metal kernel: from the files of the package, and from facts that a test makes up."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

from mpsprobe_coverage.calls.call import Call
from mpsprobe_coverage.calls.spec import spec_of
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.judging import metal
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.judging.judgement import Judgement
from mpsprobe_coverage.judging.metal import MetalKernels, rules_of
from mpsprobe_coverage.kernels.kernel_facts import KernelFacts
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.kernels.releases import torch_releases

HYPOT = torch.ops.aten.hypot.default
Made = Callable[[str, set[str], str, set[str]], None]


def _judgements(release: str, model: Callable[..., object], *inputs: torch.Tensor) -> dict[str, Judgement]:
    """Operator → the judgement of what ``model`` calls, by mechanism alone."""
    with VirtualDevice(Chain(load_table(release), lists="none")) as device:
        moved = [device.move(tensor) for tensor in inputs]
        with device.recording("forward"):
            model(*moved)
        return {record.operator: record.judgement for record in device.recorder.calls()}


@pytest.mark.parametrize(
    ("release", "operator", "function", "dtype"),
    [
        ("2.13.0", "aten::hypot", torch.hypot, torch.int32),
        ("2.13.0", "aten::erf", torch.erf, torch.complex64),
        ("2.8.0", "aten::erf", torch.erf, torch.complex64),
        ("2.15.0", "aten::igamma", torch.igamma, torch.int64),
    ],
)
def test_a_dtype_without_a_kernel_is_refused(
    release: str, operator: str, function: Callable[..., torch.Tensor], dtype: torch.dtype
) -> None:
    inputs = [torch.ones(3, dtype=dtype)] * (1 if function is torch.erf else 2)
    judgement = _judgements(release, function, *inputs)[operator]
    assert (judgement.verdict, judgement.source) == ("unsupported", "metal")
    assert judgement.reason == f"no Metal kernel '{operator[6:]}' for {str(dtype)[6:]}"
    assert f"torch {release} has it for bfloat16, " in (judgement.evidence or "")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_a_dtype_with_a_kernel_is_not(dtype: torch.dtype) -> None:
    judgements = _judgements("2.13.0", torch.exp, torch.ones(3, dtype=dtype))
    assert [(operator, judgement.verdict) for operator, judgement in judgements.items()] == [("aten::exp", "native")]


def test_operands_of_two_dtypes_are_converted() -> None:
    judgements = _judgements("2.13.0", torch.mul, torch.ones(3, dtype=torch.int32), torch.ones(3))
    assert judgements["aten::mul.Tensor"].verdict == "native"


def test_a_kernel_that_is_named_after_the_first_tensor() -> None:
    image = torch.ones(1, 1, 4, 4, dtype=torch.uint8)

    def enlarged(operator: str) -> Judgement:
        enlarge = getattr(torch.ops.aten, operator)
        return _judgements("2.13.0", lambda x: enlarge(x, [8, 8], False), image)[f"aten::{operator}"]

    bicubic = enlarged("upsample_bicubic2d")
    assert (bicubic.verdict, bicubic.reason) == ("unsupported", "no Metal kernel 'upsample_bicubic2d_{}' for uint8")
    assert enlarged("upsample_bilinear2d").verdict == "native"


class _Nms:
    """``torchvision::nms``, as far as the rule looks at it: torchvision need not be installed."""

    _schema = torch._C.parse_schema("torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def test_kernels_of_torchvision_are_for_two_dtypes() -> None:
    [rule] = rules_of("torchvision::nms", load_table("2.15.0"))

    def asked(dtype: torch.dtype) -> Judgement | None:
        boxes, scores = torch.ones(3, 4, dtype=dtype), torch.ones(3, dtype=dtype)
        specs = (spec_of(boxes), spec_of(scores))
        return rule(Call(_Nms, (boxes, scores, 0.5), {}, specs, specs[1:]))

    assert asked(torch.float32) is None and asked(torch.float16) is None
    refused = asked(torch.bfloat16)
    assert refused is not None and (refused.verdict, refused.accepted_since) == ("unsupported", None)
    assert refused.reason == "no Metal kernel 'nms_{}' for bfloat16"
    assert refused.evidence == "torchvision has it for float16, float32"


def test_without_elements_no_kernel_is_asked_for() -> None:
    empty = torch.ones(0, dtype=torch.int32)
    assert _judgements("2.13.0", torch.hypot, empty, empty)["aten::hypot"].verdict == "native"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """Sets facts of a release that a test makes up: operation, its types, operator, what is known of that."""
    facts: dict[str, KernelFacts] = {}
    monkeypatch.setattr(metal, "load_facts", facts.get)
    monkeypatch.setattr(metal, "facts_releases", lambda: tuple(sorted(facts, key=torch_releases().index)))
    monkeypatch.setattr(metal, "_rules", metal._rules.__wrapped__)
    monkeypatch.setattr(metal, "_taken_since", metal._taken_since.__wrapped__)

    def make(release: str, types: set[str], operator: str, known: set[str]) -> None:
        kernels = {fact.partition(":")[2]: frozenset(types) for fact in known}
        facts[release] = KernelFacts(release, "", kernels, {operator: frozenset(known)})

    return make


def _asked(release: str, *operands: object) -> Judgement | None:
    """What ``hypot`` of these operands meets."""
    [rule] = rules_of("aten::hypot", load_table(release))
    tensors = [operand for operand in operands if isinstance(operand, torch.Tensor)]
    specs = tuple(spec_of(tensor) for tensor in tensors)
    return rule(Call(HYPOT, operands, {}, specs, specs[:1]))


INT, HALF, FLOAT = (torch.ones(2, dtype=dtype) for dtype in (torch.int32, torch.float16, torch.float32))


def test_a_kernel_that_converts_serves_two_dtypes_only(made: Made) -> None:
    made("2.13.0", {"half", "cast:float"}, "aten::hypot", {"binary:hypot"})
    assert _asked("2.13.0", FLOAT, FLOAT) is not None
    assert _asked("2.13.0", HALF, HALF) is None
    assert _asked("2.13.0", HALF, FLOAT) is None
    assert _asked("2.13.0", INT, INT) is not None


def test_a_number_in_the_place_of_a_tensor_is_not_judged(made: Made) -> None:
    made("2.13.0", {"half"}, "aten::hypot", {"binary:hypot"})
    assert _asked("2.13.0", FLOAT, 2.0) is None
    assert _asked("2.13.0", FLOAT, FLOAT) is not None


def test_a_dtype_that_metal_does_not_have_is_not_judged(made: Made) -> None:
    made("2.13.0", {"half"}, "aten::hypot", {"binary:hypot"})
    assert _asked("2.13.0", torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)) is None


def test_another_number_of_operands_is_not_judged(made: Made) -> None:
    made("2.13.0", {"half"}, "aten::hypot", {"ternary:hypot"})
    assert _asked("2.13.0", FLOAT, FLOAT) is None


def test_one_of_several_kernels_is_enough(made: Made) -> None:
    made("2.13.0", {"half"}, "aten::hypot", {"binary:hypot", "binary:other"})
    assert _asked("2.13.0", HALF, HALF) is None
    refused = _asked("2.13.0", FLOAT, FLOAT)
    assert refused is not None
    assert refused.reason == "no Metal kernel 'hypot or other' for float32"


def test_since_when_a_release_takes_it(made: Made) -> None:
    for release, types in (("2.9.0", {"half"}), ("2.12.0", {"half"}), ("2.13.0", {"half", "int"}), ("2.14.0", {"int"})):
        made(release, types, "aten::hypot", {"binary:hypot"})
    refused = _asked("2.9.0", INT, INT)
    assert refused is not None
    assert refused.accepted_since == "2.13.0"
    assert _asked("2.13.0", INT, INT) is None
    never = _asked("2.12.0", FLOAT, FLOAT)
    assert never is not None
    assert never.accepted_since is None


def test_a_release_of_which_nothing_is_known_is_none_that_takes_it(made: Made) -> None:
    made("2.9.0", {"half"}, "aten::hypot", {"binary:hypot"})
    made("2.13.0", {"half", "int"}, "aten::hypot", {"binary:hypot"})
    made("2.14.0", {"int"}, "aten::exp", {"unary:exp"})
    refused = _asked("2.9.0", INT, INT)
    assert refused is not None
    assert refused.accepted_since is None


def test_rules_that_refuse_the_same_are_equal() -> None:
    one = MetalKernels(1, frozenset({"float"}), False, ("exp",), "aten::exp", "2.12.0")
    assert one == MetalKernels(1, frozenset({"float"}), False, ("exp2",), "aten::exp2", "2.13.0")
    assert one != MetalKernels(1, frozenset({"float", "half"}), False, ("exp",), "aten::exp", "2.12.0")
    assert one != MetalKernels(1, frozenset({"float"}), True, ("exp",), "aten::exp", "2.12.0")
    assert torch.float16 in one.dtypes
    assert torch.float32 not in one.dtypes


OF_WHOLE_NUMBERS = re.compile(r"aten::(bitwise_|__i?[lr]shift__|gcd|lcm|tri[lu]_indices)")


def test_only_operators_of_whole_numbers_refuse_float32_in_any_release() -> None:
    refusing = {
        (release, operator)
        for release in torch_releases()
        for operator in load_table(release).operators
        for rule in rules_of(operator, load_table(release))
        if torch.float32 in (rule.dtypes or ())
    }
    assert [case for case in sorted(refusing) if not OF_WHOLE_NUMBERS.match(case[1])] == []


LONG, BROKEN = (torch.ones(2, dtype=dtype) for dtype in (torch.int64, torch.bfloat16))


@pytest.mark.parametrize(
    ("read", "made_of", "refuses"), [(LONG, FLOAT, False), (LONG, BROKEN, True), (LONG, LONG, False)]
)
def test_whole_numbers_have_results_of_float32_alone(
    made: Made, read: torch.Tensor, made_of: torch.Tensor, refuses: bool
) -> None:
    made("2.8.0", {"long", "bfloat"}, "aten::hypot", {"binary:hypot"})
    [rule] = rules_of("aten::hypot", load_table("2.8.0"))
    judgement = rule(Call(HYPOT, (read, read), {}, (spec_of(read),) * 2, (spec_of(made_of),)))
    assert (judgement is not None) is refuses
    assert judgement is None or judgement.reason == "no Metal kernel 'hypot' for a result of bfloat16"


def test_kernels_of_one_operand_convert_their_result_from_2_13_on() -> None:
    for release, refuses in (("2.12.1", True), ("2.13.0", False)):
        [rule] = rules_of("aten::exp.out", load_table(release))
        call = Call(torch.ops.aten.exp.out, (LONG,), {"out": BROKEN}, (spec_of(LONG),), (spec_of(BROKEN),))
        assert (rule(call) is not None) is refuses
