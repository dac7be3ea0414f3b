"""Guard messages: which calls they refuse, in which releases, and that the table of guards is sound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional

from mpsprobe_coverage.calls.keys import operator_name
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.recorder import CallRecord
from mpsprobe_coverage.judging import guard, size
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.judging.guards import Argument, Both, Guard, Message
from mpsprobe_coverage.kernels.markers import MARKER_STRINGS
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.kernels.releases import torch_releases

GUARDS = (*guard.GUARDS, *size.GUARDS)
Operation = Callable[[torch.dtype], Any]


def _called(release: str, operation: Operation, dtype: torch.dtype, operator: str) -> list[CallRecord]:
    with VirtualDevice(load_table(release)) as device, device.recording("forward"):
        operation(dtype)
    found = [record for record in device.recorder.calls() if record.operator == operator]
    assert found, [record.operator for record in device.recorder.calls()]
    return found


def _square(dtype: torch.dtype) -> torch.Tensor:
    return torch.ones(4, 4, dtype=dtype).to("mps")


def _linear(dtype: torch.dtype) -> Any:
    return functional.linear(_square(dtype), _square(dtype))


def _solve(dtype: torch.dtype) -> Any:
    return torch.linalg.solve(_square(dtype), _square(dtype))


def _gcd(dtype: torch.dtype) -> Any:
    return torch.gcd(_square(dtype), _square(dtype))


def _put(accumulate: bool) -> Operation:
    def put(dtype: torch.dtype) -> Any:
        places = torch.tensor([0, 1]).to("mps")
        return _square(dtype).index_put_((places,), _square(dtype)[:2], accumulate=accumulate)

    return put


def _add(places: list[int]) -> Operation:
    def add(dtype: torch.dtype) -> Any:
        index = torch.tensor(places, dtype=torch.int64).to("mps")
        return _square(dtype).index_add(0, index, _square(dtype)[: len(places)])

    return add


PUT = "aten::_index_put_impl_"
ATOMIC = "scalar_type == ScalarType::Bool to be true"
CHOLESKY, SINGLE = "aten::linalg_cholesky_ex", "MPS supports float32 and complex64"
LINEAR = "MPS device does not support linear for non-float inputs"


@pytest.mark.parametrize(
    ("release", "operation", "dtype", "operator", "message", "since"),
    [
        ("2.13.0", _linear, torch.int32, "aten::linear", LINEAR, None),
        ("2.3.1", _linear, torch.complex64, "aten::linear", LINEAR, "2.12.0"),
        ("2.8.0", _linear, torch.complex64, "aten::linear", "mps linear does not support complex types", "2.12.0"),
        (
            "2.6.0",
            lambda d: _square(d) @ _square(d),
            torch.int16,
            "aten::mm",
            "does not support mm for non-float",
            "2.7.0",
        ),
        (
            "2.13.0",
            lambda d: torch.linalg.inv(_square(d)),
            torch.complex64,
            "aten::linalg_inv_ex",
            "linalg_inv: not supported for complex types yet!",
            None,
        ),
        (
            "2.13.0",
            lambda d: torch.linalg.det(_square(d)),
            torch.complex64,
            "aten::_linalg_det",
            "linalg.lu_factor(): MPS doesn't support complex types",
            "2.15.0",
        ),
        (
            "2.13.0",
            lambda d: torch.linalg.solve_triangular(_square(d), _square(d), upper=True),
            torch.complex64,
            "aten::linalg_solve_triangular",
            "linalg.solve.triangular(); Only float is supported!",
            "2.15.0",
        ),
        ("2.13.0", lambda d: functional.mish(_square(d)), torch.complex64, "aten::mish", "Mish for complex", "2.14.0"),
        (
            "2.13.0",
            lambda d: torch.special.zeta(_square(d), _square(d)),
            torch.complex64,
            "aten::special_zeta",
            "zeta",
            None,
        ),
        ("2.14.1", lambda d: _square(d).median(), torch.bool, "aten::median", "median_mps not implemented for", None),
        ("2.0.1", lambda d: _square(d).max(1), torch.int64, "aten::max.dim", "min/max ops with int64", "2.1.0"),
        (
            "2.14.0",
            lambda d: torch.linalg.cross(_square(d)[:, :3], _square(d)[:, :3]),
            torch.bool,
            "aten::linalg_cross",
            "linalg.cross",
            None,
        ),
        ("2.7.1", lambda d: _square(d).sigmoid(), torch.int64, "aten::sigmoid", "sigmoid op with int64", "2.8.0"),
        ("1.13.1", lambda d: -_square(d), torch.int64, "aten::neg", "input type 'int64' in MPS backend", "2.0.0"),
        ("2.0.1", _put(accumulate=True), torch.int16, PUT, ATOMIC, "2.9.0"),
        ("2.7.1", _put(accumulate=True), torch.float16, PUT, ATOMIC, "2.8.0"),
        ("2.8.0", _add([0, 1]), torch.int64, "aten::index_add", "Expected non int64 dtype for source", "2.9.0"),
        ("2.15.0", _solve, torch.float16, "aten::_linalg_solve_ex", f"lu_factor(): {SINGLE} inputs", None),
        ("2.14.1", _solve, torch.bfloat16, "aten::_linalg_solve_ex", "MPS doesn't support complex types", None),
        ("2.9.1", _solve, torch.complex64, "aten::_linalg_solve_ex", "MPS doesn't support complex types", "2.15.0"),
        ("2.15.0", lambda d: torch.linalg.qr(_square(d)), torch.bfloat16, "aten::linalg_qr", "geqrf: MPS", None),
        ("2.14.0", lambda d: torch.linalg.cholesky(_square(d)), torch.float16, CHOLESKY, SINGLE, None),
        ("2.11.0", lambda d: _square(d).repeat(2, 1), torch.complex64, "aten::repeat", "repeat()", "2.12.0"),
        (
            "2.11.0",
            lambda d: torch.linalg.vector_norm(_square(d)),
            torch.complex64,
            "aten::linalg_vector_norm",
            "norm ops",
            "2.12.0",
        ),
    ],
)
def test_a_guarded_call_is_unsupported_and_says_so(
    release: str, operation: Operation, dtype: torch.dtype, operator: str, message: str, since: str | None
) -> None:
    for record in _called(release, operation, dtype, operator):
        judgement = record.judgement
        assert (judgement.verdict, judgement.source) == ("unsupported", "message")
        assert message in (judgement.reason or "") and message in (judgement.evidence or "")
        assert judgement.accepted_since == since


@pytest.mark.parametrize(
    ("release", "operation", "dtype", "operator"),
    [
        ("2.13.0", _linear, torch.float16, "aten::linear"),
        ("2.13.0", _linear, torch.complex64, "aten::linear"),
        ("2.7.0", lambda d: _square(d) @ _square(d), torch.int16, "aten::mm"),
        ("2.4.1", lambda d: _square(d) @ _square(d), torch.complex64, "aten::mm"),
        ("2.13.0", lambda d: torch.linalg.inv(_square(d)), torch.float32, "aten::linalg_inv_ex"),
        ("2.13.0", lambda d: torch.linalg.lu_factor_ex(_square(d)), torch.float32, "aten::linalg_lu_factor_ex"),
        ("2.13.0", _gcd, torch.int64, "aten::gcd"),
        ("2.13.0", lambda d: torch.special.zeta(_square(d), _square(d)), torch.int32, "aten::special_zeta"),
        ("2.13.0", lambda d: _square(d).normal_(), torch.bfloat16, "aten::normal_"),
        ("2.0.1", lambda d: _square(d).cumsum(0), torch.int32, "aten::cumsum"),
        ("2.8.0", lambda d: _square(d).sigmoid(), torch.int64, "aten::sigmoid"),
        *(("2.6.0", _put(accumulate=False), d, PUT) for d in (torch.int64, torch.float16, torch.bool, torch.uint8)),
        *(("2.6.0", _put(accumulate=True), d, PUT) for d in (torch.float32, torch.int32, torch.bool)),
        ("2.8.0", _put(accumulate=True), torch.float16, PUT),
        ("2.8.0", _add([0, 1]), torch.int32, "aten::index_add"),
        ("2.8.0", _add([]), torch.int64, "aten::index_add"),  # nothing is checked where nothing is added
        ("2.15.0", _solve, torch.complex64, "aten::_linalg_solve_ex"),
        ("2.9.1", _solve, torch.float16, "aten::_linalg_solve_ex"),
    ],
)
def test_what_the_guard_lets_through_stays_native(
    release: str, operation: Operation, dtype: torch.dtype, operator: str
) -> None:
    assert {record.judgement.verdict for record in _called(release, operation, dtype, operator)} == {"native"}


def _refusing(release: str, operation: Callable[[], Any], operator: str) -> str | None:
    (record, *_) = _called(release, lambda _: operation(), torch.float32, operator)
    return record.judgement.reason if record.judgement.verdict == "unsupported" else None


def test_arguments_count_as_well_as_dtypes() -> None:
    square = torch.ones(4, 4)
    lu = "aten::linalg_lu_factor_ex"
    assert "pivot == False" in str(
        _refusing("2.13.0", lambda: torch.linalg.lu_factor(square.to("mps"), pivot=False), lu)
    )
    assert _refusing("2.13.0", lambda: torch.linalg.lu_factor(square.to("mps")), lu) is None

    index = torch.zeros(4, 4, dtype=torch.int64)

    def scatter(reduce: str) -> Any:
        on_mps = square.to("mps")
        return on_mps.scatter_reduce(0, index.to("mps"), on_mps, reduce)

    mean = "aten::scatter_reduce.two"
    assert _refusing("2.12.1", lambda: scatter("mean"), mean) is None  # the kernel adds up, and the caller divides

    half = torch.ones(4, dtype=torch.float16)
    for mode, refused in (("trunc", True), ("floor", False), (None, False)):

        def divide(mode: str | None = mode) -> Any:
            return half.to("mps").div(half.to("mps"), rounding_mode=mode)

        assert ("trunc_divide" in str(_refusing("2.5.1", divide, "aten::div.Tensor_mode"))) is refused

    many = torch.ones(40)
    assert "k<=16" in str(_refusing("1.13.1", lambda: many.to("mps").topk(17), "aten::topk"))
    assert _refusing("1.13.1", lambda: many.to("mps").topk(16), "aten::topk") is None


def test_shapes_and_pairs_of_dtypes_count() -> None:
    five = torch.ones(2, 2, 2, 2, 2)
    assert "ndims() - axis > 4" in str(_refusing("2.12.1", lambda: five.to("mps").topk(1, dim=0), "aten::topk"))
    assert _refusing("2.12.1", lambda: five.to("mps").topk(1, dim=1), "aten::topk") is None
    assert _refusing("2.13.0", lambda: five.to("mps").topk(1, dim=0), "aten::topk") is None

    def clamp(release: str) -> str | None:
        return _refusing(release, lambda: torch.clamp(five[0].to("mps"), min=five.to("mps")), "aten::clamp.Tensor")

    assert "number of dims" in str(clamp("2.9.1"))
    assert clamp("2.10.0") is None

    def isin(release: str, dtype: torch.dtype) -> str | None:
        numbers = torch.ones(4)
        return _refusing(
            release, lambda: torch.isin(numbers.to("mps"), numbers.to(dtype).to("mps")), "aten::isin.Tensor_Tensor"
        )

    assert "test_elements.dtype()" in str(isin("2.4.1", torch.int64))
    assert isin("2.4.1", torch.float32) is None
    assert isin("2.8.0", torch.int64) is None


def test_every_guard_stands_for_a_message_of_some_release() -> None:
    for check in GUARDS:
        assert check.marker in MARKER_STRINGS
        releases = [release for release in torch_releases() if check.marker in load_table(release).markers]
        assert releases, check.marker


def _overloads() -> Iterator[tuple[str, frozenset[str]]]:
    for packet in dir(torch.ops.aten):
        overloads = getattr(getattr(torch.ops.aten, packet), "overloads", None)
        for overload in overloads() if overloads is not None else ():
            func = getattr(getattr(torch.ops.aten, packet), overload)
            yield operator_name(func), frozenset(argument.name for argument in func._schema.arguments)


def test_every_guard_asks_for_arguments_that_its_operators_have() -> None:
    arguments = dict(_overloads())
    guarded: dict[str, set[Guard]] = {}
    for release in torch_releases():
        table = load_table(release)
        for operator in table.operators:
            rules = (*guard.rules_of(operator, table), *size.rules_of(operator, table))
            if rules:
                guarded.setdefault(operator, set()).update(rule.guard for rule in rules if isinstance(rule, Message))
    named = {name.partition("::")[2].partition(".")[0] for name in guarded} | {n.partition("::")[2] for n in guarded}
    for check in GUARDS:
        assert all(name in named or f"{name}_" in named for name in check.operators), check
    for operator, checks in guarded.items():
        for check in checks:
            asked = check.refuses.dtype if isinstance(check.refuses, Both) else check.refuses
            if isinstance(asked, Argument) and operator in arguments:
                assert asked.name in arguments[operator], (operator, check)


def test_rules_are_equal_where_the_releases_refuse_the_same() -> None:
    before, older, newer = (
        Chain(load_table(release), lists="none").rules_of("aten::linear") for release in ("2.11.0", "2.12.0", "2.12.1")
    )
    of_messages = [rule for rule in older if isinstance(rule, Message)]
    assert of_messages and all(rule in newer for rule in of_messages)
    assert any(rule not in newer for rule in before)  # 2.11.0 refused complex numbers, too
