"""Messages with which kernels refuse dtypes, arguments and sizes, by release; and that the tables of them are sound."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from judged_calls import Program, Refused, Taken, judgements, made, not_native, places, wrong
from torch.nn import functional

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.keys import operator_name
from mpsprobe_coverage.knowledge.calls.spec import spec_of
from mpsprobe_coverage.knowledge.judging import guard, size
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.judging.conditions import Condition
from mpsprobe_coverage.knowledge.kernels.markers import MARKER_STRINGS
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import torch_releases

GUARDS = (*guard.GUARDS, *size.GUARDS)
aten = torch.ops.aten
BF16, HALF, FLOAT, COMPLEX = torch.bfloat16, torch.float16, torch.float32, torch.complex64
BOOL, BYTE, SHORT, INT, LONG = torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64


def _one(function: Callable[..., Any], dtype: torch.dtype = FLOAT, **options: Any) -> Program:
    """``function`` of a square."""
    return lambda: function(made(4, 4, dtype=dtype), **options)


def _two(function: Callable[..., Any], dtype: torch.dtype = FLOAT, **options: Any) -> Program:
    """``function`` of two squares."""
    return lambda: function(made(4, 4, dtype=dtype), made(4, 4, dtype=dtype), **options)


def _put(dtype: torch.dtype, accumulate: bool) -> Program:
    return _one(lambda x: x.index_put_((places(2),), x[:2], accumulate=accumulate), dtype)


def _add(dtype: torch.dtype, number: int) -> Program:
    return _one(lambda x: x.index_add(0, places(number), x[:number]), dtype)


def _extremes(dtype: torch.dtype, *, strided: bool) -> Program:
    """The largest numbers into a square, in place."""
    return _one(lambda x: (x.t() if strided else x).scatter_reduce_(0, places(4, 4), x, "amax"), dtype)


def _weighted(step: int) -> Program:
    return lambda: torch.histogram(made(4), 2, weight=made(4 * step)[::step])


def _drawn(dtype: torch.dtype, lowest: int) -> Program:
    return lambda: made(4, dtype=dtype).random_(lowest, None)


PUT, SOLVE, SINGLE = "_index_put_impl_", "_linalg_solve_ex", "MPS supports float32 and complex64"
ATOMIC = "scalar_type == ScalarType::Bool to be true"
LINEAR = "MPS device does not support linear for non-float inputs"
TRIANGULAR = "linalg_solve_triangular"
NO_COMPLEX = "MPS doesn't support complex types"
FIVE = (2, 2, 2, 2, 2)
DTYPES_AND_ARGUMENTS: list[Refused] = [
    ("2.13.0", _two(functional.linear, INT), "linear", LINEAR, None),
    ("2.3.1", _two(functional.linear, COMPLEX), "linear", LINEAR, "2.12.0"),
    ("2.8.0", _two(functional.linear, COMPLEX), "linear", "mps linear does not support complex types", "2.12.0"),
    ("2.6.0", _two(torch.mm, SHORT), "mm", "does not support mm for non-float", "2.7.0"),
    ("2.13.0", _one(torch.linalg.inv, COMPLEX), "linalg_inv_ex", "linalg_inv: not supported for complex types", None),
    ("2.13.0", _one(torch.linalg.det, COMPLEX), "_linalg_det", f"linalg.lu_factor(): {NO_COMPLEX}", "2.15.0"),
    ("2.13.0", _two(torch.linalg.solve_triangular, COMPLEX, upper=True), TRIANGULAR, "Only float", "2.15.0"),
    ("2.13.0", _one(functional.mish, COMPLEX), "mish", "Mish for complex", "2.14.0"),
    ("2.13.0", _two(torch.special.zeta, COMPLEX), "special_zeta", "zeta", None),
    ("2.14.1", _one(torch.median, BOOL), "median", "median_mps not implemented for", None),
    ("2.0.1", _one(torch.max, LONG, dim=1), "max.dim", "min/max ops with int64", "2.1.0"),
    ("2.14.0", _one(lambda x: torch.linalg.cross(x[:, :3], x[:, :3]), BOOL), "linalg_cross", "linalg.cross", None),
    ("2.7.1", _one(torch.sigmoid, LONG), "sigmoid", "sigmoid op with int64", "2.8.0"),
    ("1.13.1", _one(torch.neg, LONG), "neg", "input type 'int64' in MPS backend", "2.0.0"),
    # Macs write at indices every day; what these releases have no kernel for is to add up there.
    *(("2.0.1 2.6.0", _put(one, accumulate=True), PUT, ATOMIC, "2.9.0") for one in (LONG, SHORT, BYTE)),
    *(("2.8.0", _put(one, accumulate=True), PUT, "kInt", "2.9.0") for one in (LONG, SHORT, BYTE)),
    ("2.7.1", _put(HALF, accumulate=True), PUT, ATOMIC, "2.8.0"),
    ("2.8.0", _add(LONG, 2), "index_add", "Expected non int64 dtype for source", "2.9.0"),
    ("2.15.0", _two(torch.linalg.solve, HALF), SOLVE, f"lu_factor(): {SINGLE} inputs", None),
    ("2.14.1", _two(torch.linalg.solve, BF16), SOLVE, NO_COMPLEX, None),
    ("2.9.1", _two(torch.linalg.solve, COMPLEX), SOLVE, NO_COMPLEX, "2.15.0"),
    ("2.15.0", _one(torch.linalg.qr, BF16), "linalg_qr", "geqrf: MPS", None),
    ("2.14.0", _one(torch.linalg.cholesky, HALF), "linalg_cholesky_ex", SINGLE, None),
    ("2.11.0", _one(lambda x: x.repeat(2, 1), COMPLEX), "repeat", "repeat()", "2.12.0"),
    ("2.11.0", _one(torch.linalg.vector_norm, COMPLEX), "linalg_vector_norm", "norm ops", "2.12.0"),
    ("2.13.0", _one(torch.linalg.lu_factor, pivot=False), "linalg_lu_factor_ex", "pivot == False", None),
    ("2.5.1", _two(torch.div, HALF, rounding_mode="trunc"), "div.Tensor_mode", "trunc_divide", "2.8.0"),
    ("1.13.1", lambda: made(40).topk(17), "topk", "k<=16", "2.0.0"),
    ("2.9.1", _one(torch.cumsum, COMPLEX, dim=0), "cumsum", "not yet supported for complex", "2.12.0"),
    ("2.8.0 2.12.1", lambda: made(*FIVE).topk(1, dim=0), "topk", "ndims() - axis > 4", "2.13.0"),
    ("2.9.1", lambda: torch.clamp(made(2, 2), min=made(2, 2, 2)), "clamp.Tensor", "number of dims", "2.10.0"),
    ("2.13.0 2.15.0", _extremes(LONG, strided=True), "scatter_reduce_.two", "requires contiguous self", None),
    ("2.1.0 2.11.0", _weighted(2), "histogram.bin_ct", "weight should be contiguous", "2.12.0"),
    ("1.13.1 2.12.1", _drawn(LONG, -(2**63)), "random_.from", "lowest() -> max()", "2.13.0"),
    ("2.4.1", lambda: torch.isin(made(4), made(4, dtype=LONG)), "isin.Tensor_Tensor", "test_elements.dtype()", "2.8.0"),
]
NOT_REFUSED: list[Taken] = [
    ("2.13.0", _two(functional.linear, HALF), "linear"),
    ("2.4.1", _two(torch.mm, COMPLEX), "mm"),
    ("2.13.0", _one(torch.linalg.inv), "linalg_inv_ex"),
    ("2.13.0", _one(torch.linalg.lu_factor), "linalg_lu_factor_ex"),
    ("2.13.0", _two(torch.gcd, LONG), "gcd"),
    ("2.13.0", _two(torch.special.zeta, INT), "special_zeta"),
    ("2.13.0", _one(torch.Tensor.normal_, BF16), "normal_"),
    ("2.0.1", _one(torch.cumsum, INT, dim=0), "cumsum"),
    *(("2.6.0 2.8.0", _put(dtype, accumulate=False), PUT) for dtype in (LONG, SHORT, HALF, BOOL, BYTE)),
    *(("2.6.0", _put(dtype, accumulate=True), PUT) for dtype in (FLOAT, INT, BOOL)),
    *(("2.9.0", _put(dtype, accumulate=True), PUT) for dtype in (LONG, SHORT, BYTE)),
    ("2.8.0", _add(INT, 2), "index_add"),
    ("2.8.0", _add(LONG, 0), "index_add"),  # nothing is checked where nothing is added
    ("2.15.0", _two(torch.linalg.solve, COMPLEX), SOLVE),
    ("2.9.1", _two(torch.linalg.solve, HALF), SOLVE),
    # The kernel adds up, and the caller divides.
    ("2.12.1", _one(lambda x: x.scatter_reduce(0, places(4, 4), x, "mean")), "scatter_reduce.two"),
    *(("2.5.1", _two(torch.div, HALF, rounding_mode=mode), "div.Tensor_mode") for mode in ("floor", None)),
    ("1.13.1", lambda: made(40).topk(16), "topk"),
    ("2.12.1", lambda: made(*FIVE).topk(1, dim=1), "topk"),
    ("2.4.1", lambda: torch.isin(made(4), made(4)), "isin.Tensor_Tensor"),
    ("2.13.0", _extremes(LONG, strided=False), "scatter_reduce_.two"),
    ("2.13.0", _extremes(INT, strided=True), "scatter_reduce_.two"),
    ("2.11.0", _weighted(1), "histogram.bin_ct"),
    ("2.12.1", _drawn(LONG, 1 - 2**63), "random_.from"),
]


def test_a_guarded_call_is_unsupported_and_says_so() -> None:
    assert not wrong("guard", DTYPES_AND_ARGUMENTS)
    [one] = judgements("2.6.0", _two(torch.mm, SHORT), "mm")
    assert one.source == "message" and "does not support mm for non-float" in str(one.evidence)


def test_what_the_guard_lets_through_stays_native() -> None:
    assert not not_native(NOT_REFUSED)


def _average(size: tuple[int, int], output: Any) -> Program:
    return lambda: functional.adaptive_avg_pool2d(made(1, 2, *size), output)


def _gradient_of_pool(elements: int) -> Program:
    def pool() -> Any:
        images = made(1, 1, 1, elements, dtype=HALF)
        options = [1, 1], [1, elements], [0, 0], [1, 1], False
        return aten.max_pool2d_with_indices_backward(made(1, 1, 1, 1, dtype=HALF), images, *options, places(1, 1, 1, 1))

    return pool


def _embed(indices: int, rows: int, size: int) -> Program:
    def embed() -> Any:
        grads, rows_read = made(1, 1).expand(indices, size), places(1).expand(indices)
        return aten.embedding_dense_backward(grads, rows_read, rows, -1, False)

    return embed


REDUCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "sum.dim_IntList": torch.sum,
    "max": torch.max,
    "max.dim": lambda tensor: tensor.max(0),
    "amin": lambda tensor: tensor.amin(0),
    "count_nonzero.dim_IntList": torch.count_nonzero,
    "linalg_vector_norm": torch.linalg.vector_norm,
    "std.correction": torch.std,
    "prod": torch.prod,
}


def _reduce(operator: str, *shape: int) -> Program:
    return lambda: REDUCTIONS[operator](made(1).expand(shape))


MEAN, LARGEST, BACK = "_adaptive_avg_pool2d", "adaptive_max_pool2d", "max_pool2d_with_indices_backward"
CONVOLUTION, EMBEDDING, FILL = "_mps_convolution", "embedding_dense_backward", "masked_fill_.Scalar"
SIZES: list[Refused] = [
    ("2.13.0", _average((6, 7), (3, 3)), MEAN, "input sizes must be divisible by output sizes", None),
    ("2.13.0", _average((3, 4), (7, 8)), MEAN, "output sizes must be divisible by input sizes", None),
    ("2.13.0", _average((4, 4), (2, 8)), MEAN, "Input height and width must both be great", None),
    ("1.13.1", _average((3, 4), (7, 8)), MEAN, "output sizes must be multiples of input sizes", None),
    ("2.13.0", lambda: functional.adaptive_max_pool2d(made(1, 2, 5, 7), (2, 9)), LARGEST, "Input height", "2.14.0"),
    # From 2.6.0 on the message is for macOS before 15.1 only.
    ("2.5.1", lambda: functional.conv1d(made(1, 1, 3), made(65537, 1, 1)), CONVOLUTION, "65536", "2.6.0"),
    ("2.13.0", lambda: made(1, 1, 1).bmm(made(1, 1, 1).expand(1, 1, 2**32 + 1)), "bmm", "2**32", None),
    ("2.13.0", lambda: made(*[1] * 17), "empty.memory_format", "dimensions <=", None),
    ("2.15.0", lambda: made(1).expand(2**32).argmax(), "argmax", "argmax: tensors requiring 64-bit", None),
    ("2.15.0", _gradient_of_pool(2**31 - 1), BACK, "64-bit", None),
    *(("2.13.0", _embed(*one), EMBEDDING, "INT32_MAX", None) for one in ((1, 2**15, 2**16), (2**15, 1, 2**16))),
    ("2.13.0", _embed(2**31, 1, 1), EMBEDDING, "INT32_MAX", None),
    ("2.13.0", lambda: made(2**32, dtype=BOOL).masked_fill_(made(1, dtype=BOOL).expand(2**32), 0), FILL, "2**32", None),
]
SIZES_THAT_FIT: list[Taken] = [
    *(("2.13.0", _average((6, 9), (3, 3)), MEAN), ("2.13.0", _average((3, 4), (6, 8)), MEAN)),
    *(("2.13.0", _average((4, 4), (4, 4)), MEAN), ("2.13.0", _average((4, 4), (4, 8)), MEAN)),
    ("1.13.1", _average((6, 7), (3, 3)), MEAN),
    ("2.13.0", _average((5, 7), 1), "mean.dim"),  # to one pixel
    ("2.13.0", lambda: functional.adaptive_max_pool2d(made(1, 2, 5, 7), (2, 2)), LARGEST),
    ("2.4.1", lambda: functional.conv1d(made(1, 1, 3), made(65537, 1, 1)), CONVOLUTION),
    ("2.4.1 2.5.1 2.6.0", lambda: functional.conv1d(made(1, 1, 3), made(65536, 1, 1)), CONVOLUTION),
    ("2.13.0", lambda: made(1, 1, 1).bmm(made(1, 1, 1).expand(1, 1, 2**32)), "bmm"),
    ("2.13.0", lambda: made(*[1] * 16), "empty.memory_format"),
    ("2.15.0", lambda: made(1).expand(2**32 - 1).argmax(), "argmax"),
    ("2.13.0", lambda: made(1).expand(2**32).argmax(), "argmax"),
    *(("2.15.0", _gradient_of_pool(2**31 - 2), BACK), ("2.13.0", _gradient_of_pool(2**31 - 1), BACK)),
    *(("2.12.1", _embed(*one), EMBEDDING) for one in ((1, 2**15, 2**16), (2**15, 1, 2**16))),
    *(("2.15.0", _embed(*one), EMBEDDING) for one in ((1, 2**15 - 1, 2**16), (2**15 - 1, 1, 2**16))),
    *(("2.15.0", _embed(*one), EMBEDDING) for one in ((2**31 - 1, 1, 1), (0, 2**15, 2**16))),
    ("2.13.0", lambda: made(2**32 - 1, dtype=BOOL).masked_fill_(made(1, dtype=BOOL).expand(2**32 - 1), 0), FILL),
]


def test_sizes_that_a_kernel_refuses() -> None:
    assert not wrong("size", SIZES)


def test_sizes_beside_those() -> None:
    assert not not_native(SIZES_THAT_FIT)


def test_the_gradient_of_a_pool_that_does_not_divide() -> None:
    with VirtualDevice(load_table("2.13.0")) as device:
        pooled = functional.adaptive_avg_pool2d(made(1, 2, 5, 5).requires_grad_(), 2)
        with device.recording("backward"):
            pooled.sum().backward()
    found = {record.operator: record.judgement.verdict for record in device.recorder.calls()}
    assert found["aten::_adaptive_avg_pool2d_backward"] == "unsupported"


def test_reductions_of_more_elements_than_a_kernel_counts() -> None:
    releases = ["2.13.0", "2.14.0", "2.15.0"]
    for operator in REDUCTIONS:
        refusing = releases[2:] if operator in ("std.correction", "prod") else releases[1:]
        many, fewer = _reduce(operator, 2**16, 2**16), _reduce(operator, 2**16 - 1, 2**16 + 1)
        assert not wrong("size", [(" ".join(refusing), many, operator, "64-bit", None)])
        taking = " ".join(one for one in releases if one not in refusing)
        assert not not_native([(taking, many, operator), (" ".join(releases), fewer, operator)])


def _factors(function: Callable[..., Any], *shapes: tuple[int, ...], **factors: complex) -> Program:
    return lambda: function(*[made(*shape, dtype=COMPLEX) for shape in shapes], **factors)


def test_complex_factors_of_products_whose_kernels_take_real_ones() -> None:
    matrices, vectors = [(3, 3)] * 3, [(3, 3), (3,), (3,)]
    refused: list[Refused] = [
        ("2.13.0 2.14.1", _factors(torch.addmm, *matrices, alpha=2 + 3j), "addmm", "alpha is complex", "2.15.0"),
        ("2.13.0", _factors(torch.addmm, *matrices, beta=1j, alpha=2), "addmm", "beta is complex", "2.15.0"),
        ("2.4.1 2.15.0", _factors(torch.addr, *vectors, beta=1j), "addr", "beta is complex", None),
    ]
    assert not wrong("factors", refused, lists="none")
    taken: list[Taken] = [
        ("2.13.0", _factors(torch.addmm, *matrices, alpha=complex(2, 0)), "addmm"),
        ("2.13.0", _factors(torch.addmm, *matrices), "addmm"),
        ("2.4.1 2.15.0", _factors(torch.addr, *vectors, beta=2), "addr"),
    ]
    assert not not_native(taken, lists="none")


def test_every_guard_stands_for_a_message_of_some_release() -> None:
    assert {check.marker for check in GUARDS} <= MARKER_STRINGS.keys()
    seen = frozenset[str]().union(*(load_table(release).markers for release in torch_releases()))
    assert not [check.marker for check in GUARDS if check.marker not in seen]


def _overloads() -> dict[str, Any]:
    names = [
        name.partition("::")[2].partition(".") for name in torch._C._dispatch_get_all_op_names() if "aten::" in name
    ]
    overloads = [getattr(getattr(aten, name), overload or "default") for name, _, overload in names]
    return {operator_name(func): func for func in overloads}


def test_every_guard_asks_for_arguments_that_its_operators_have() -> None:
    overloads = _overloads()
    guarded: dict[str, set[Condition]] = {}
    for release in torch_releases():
        table = load_table(release)
        for operator in table.operators:
            rules = (*guard.rules_of(operator, table), *size.rules_of(operator, table))
            if rules:
                guarded.setdefault(operator, set()).update(rule.facts[1] for rule in rules)
    named = {name.partition("::")[2].partition(".")[0] for name in guarded} | {n.partition("::")[2] for n in guarded}
    for check in GUARDS:
        assert all(name in named or f"{name}_" in named for name in check.operators.split()), check
    nothing: tuple[Any, ...] = (spec_of(torch.ones(2)),) * 2
    for operator in guarded.keys() & overloads.keys():
        func = overloads[operator]
        call = Call(func, (None,) * len(func._schema.arguments), {}, nothing, nothing)
        for check in guarded[operator]:
            with suppress(TypeError):  # nothing is no number; a KeyError would be an argument that it does not have
                check.why(call)


def test_rules_are_equal_where_the_releases_refuse_the_same() -> None:
    before, older, newer = (
        Chain(load_table(release), lists="none").rules_of("aten::linear") for release in ("2.11.0", "2.12.0", "2.12.1")
    )
    of_messages = [rule for rule in older if rule.judge == "guard"]
    assert of_messages and all(rule in newer for rule in of_messages)
    assert any(rule not in newer for rule in before)  # 2.11.0 refused complex numbers, too
