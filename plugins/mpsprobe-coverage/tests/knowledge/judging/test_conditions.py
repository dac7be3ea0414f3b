"""What fails in Apple's frameworks, what a kernel leaves to the CPU, what needs a newer macOS: at its boundaries."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from judged_calls import Program, judgements, made, not_native, ran, wrong
from packaging.version import Version
from torch.nn import functional

from mpsprobe.errors import UsageError
from mpsprobe_coverage.knowledge.judging.frameworks import FRAMEWORKS
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.kernels.mps import load_table, torch_releases
from mpsprobe_coverage.reporting.advice import advise
from mpsprobe_coverage.reporting.findings import macos_conditions
from mpsprobe_coverage.reporting.reports import check_macos

Function = Callable[[torch.Tensor], Any]
BF16, HALF, FLOAT, COMPLEX = torch.bfloat16, torch.float16, torch.float32, torch.complex64
BOOL, INT, LONG = torch.bool, torch.int32, torch.int64
FIVE, SIX, REDUCED = (1, 2, 3, 4, 5), (2, 1, 2, 1, 2, 1), (2, 4, 1, 30, 1)


def _of(shape: tuple[int, ...], function: Function, dtype: torch.dtype = FLOAT) -> Program:
    return lambda: function(made(*shape, dtype=dtype))


def _fails(rows: list[tuple[str, Program, str, str | None]]) -> list[str]:
    return wrong("frameworks", ((releases, program, "", words, since) for releases, program, words, since in rows))


RANKS: list[tuple[str, Program, str, str | None]] = [
    ("2.0.0 2.7.0 2.12.1", _of(FIVE, lambda x: x.cumsum(0)), "ends", "2.13.0"),
    ("2.7.0", _of(FIVE, lambda x: x.cumsum_(-5)), "ends", "2.13.0"),
    ("2.7.0", _of(SIX, lambda x: x.cumsum(1)), "ends", "2.13.0"),
    ("2.1.0 2.12.1", _of(FIVE, lambda x: x.cumprod(0)), "ends", "2.13.0"),
    ("2.0.0 2.11.0", _of(FIVE, lambda x: x.sort(0)), "ends", "2.12.0"),
    ("2.11.0", _of(SIX, lambda x: x.sort(1)), "ends", "2.12.0"),
    ("2.4.1 2.12.1", _of(SIX, lambda x: x.sort(0)), "ends", "2.13.0"),
    ("2.0.0 2.7.1", _of(FIVE, lambda x: x.topk(1, 0)), "ends", "2.13.0"),
    ("2.0.0 2.13.0", _of(FIVE, lambda x: x.median(0)), "ends", "2.14.0"),
    ("2.13.0", _of(FIVE, lambda x: x.nanmedian(-5)), "ends", "2.14.0"),
    ("2.0.0 2.4.1", _of(FIVE, torch.all), "ends", "2.5.0"),
    ("2.4.1", _of(FIVE, torch.any), "ends", "2.5.0"),
    ("2.4.1", _of(FIVE, lambda x: x.all(dim=0)), "ends", "2.5.0"),
    ("2.1.0 2.4.1", _of(REDUCED, lambda x: x.sum(dim=-2)), "ends", "2.5.0"),
    ("2.4.1", _of(REDUCED, lambda x: x.mean(dim=-4)), "ends", "2.5.0"),
    ("2.4.1", _of(REDUCED, lambda x: x.amax(dim=-5)), "raises IndexError", "2.5.0"),
    ("2.3.0 2.13.0", _of((2, 1, 1, 1, 2, 2), lambda x: torch.fft.fftn(x, dim=(1, 2))), "ends", "2.14.0"),
    ("2.3.0 2.13.0", _of(FIVE, lambda x: torch.fft.rfft(x, dim=0)), "ends", "2.14.0"),
    ("2.3.0 2.13.0", _of((4, 2, 3, 4, 5), lambda x: torch.fft.hfft(x, dim=-5)), "ends", "2.14.0"),
    ("2.0.0 2.7.1", _of((1025, 1025), torch.linalg.inv_ex), "ends", "2.8.0"),
    ("2.2.2", _of((2, 64, 2, 2, 2), lambda x: functional.linear(x, x[0, 0, 0])), "ends", "2.3.0"),
    ("2.0.0 2.13.0", _of((2, 2), lambda x: torch.addmm(x, x, x.half())), "ends", "2.14.0"),
]
BESIDE_THEM: list[tuple[str, tuple[int, ...], Function]] = [
    ("2.7.0", FIVE, lambda x: x.cumsum(1)),
    ("2.7.0", (0, *FIVE), lambda x: x.cumsum(-6)),
    ("2.7.0", FIVE[1:], lambda x: x.cumsum(0)),
    ("2.7.0", FIVE, lambda x: x.topk(0, 0)),
    ("2.7.0", (1024, 1024), torch.linalg.inv_ex),
    ("2.7.0", (2, 1025, 1025), torch.linalg.inv_ex),
    ("2.7.0", FIVE, lambda x: torch.fft.fftn(x, dim=(1, 2))),
    ("2.7.0", FIVE[1:], torch.fft.fftn),
    ("2.12.0", SIX, lambda x: x.sort(1)),
    ("2.4.1", FIVE[1:], torch.all),
    ("2.4.1", FIVE, lambda x: x.any(dim=1)),
    ("2.4.1", REDUCED, lambda x: x.sum(dim=3)),
    ("2.4.1", REDUCED, lambda x: x.sum(dim=-3)),  # a wrong result, of fewer elements
    ("2.4.1", (2, 4, 1, 30, 2), lambda x: x.sum(dim=-2)),
    ("2.4.1", REDUCED, torch.sum),
    ("2.0.1", REDUCED, lambda x: x.sum(dim=-2)),
    ("2.2.2", (1, 64, 2, 2, 2), lambda x: functional.linear(x, x[0, 0, 0, 0, None])),
    ("2.2.2", (2, 32, 2, 2, 2), lambda x: functional.linear(x, x[0, 0, 0, 0, None], x[0, 0, 0, 0, :1])),
]


def test_ranks_with_which_it_fails_in_those_releases() -> None:
    assert not _fails(RANKS)
    assert not not_native((str(since), program, "") for _, program, _, since in RANKS)
    issue = judgements("2.7.0", RANKS[0][1], "cumsum")[0]
    assert (issue.verdict, issue.source) == ("unsupported", "issue")


def test_what_is_beside_it_is_native() -> None:
    assert not not_native((release, _of(shape, function), "") for release, shape, function in BESIDE_THEM)


def test_a_product_of_two_dtypes_ends_the_process_and_then_raises() -> None:
    product = _of((2, 2), lambda x: x @ x.half())
    reasons = [judgements(release, product, "mm")[0].reason for release in ("2.6.0", "2.7.0", "2.15.0")]
    assert reasons == [
        "ends the process: MPSGraph infers no type for a product of two dtypes",
        *["raises: mat1 and mat2 have two dtypes"] * 2,
    ]
    assert not not_native([("2.15.0", _of((2, 2), lambda x: x @ x, HALF), "mm")])


@pytest.mark.parametrize(
    ("shape", "verdict"),
    [((32, 32, 8), "unsupported"), ((8191, 1), "fallback"), ((8192, 1), "unsupported"), ((8193, 1), "fallback")],
)
def test_the_kernel_of_svd_does_not_compile_in_2_14_0(shape: tuple[int, ...], verdict: str) -> None:
    [one] = judgements("2.14.0", _of(shape, torch.linalg.svd), "_linalg_svd")
    assert one.verdict == verdict
    if verdict == "unsupported":
        assert (one.source, one.accepted_since) == ("issue", "2.14.1")
    [without] = judgements("2.13.0", _of((8, 64, 64), torch.linalg.svdvals), SVD)
    assert (without.verdict, without.accepted_since) == ("missing", "2.14.1")  # 2.14.0 has a kernel, and that fails


def test_advice_names_the_release() -> None:
    [ends] = judgements("2.7.0", RANKS[0][1], "cumsum")
    advice = advise("aten::cumsum", ends, load_table("2.7.0"), "", 0)
    assert advice == (
        "It ends the process: neither try nor the environment variable prevents that. "
        "Accepted from torch 2.13.0 on: upgrade, or change the call."
    )
    [raised] = judgements("2.8.0", _of(FIVE, lambda x: x.topk(1, 0)), "topk")
    advice = advise("aten::topk", raised, load_table("2.8.0"), "", 0)
    assert not raised.ends_process and str(advice).endswith("The environment variable does not help.")


def test_every_entry_is_of_releases_with_a_table_and_has_its_source() -> None:
    releases = torch_releases()
    for entry in FRAMEWORKS.entries:
        assert releases.index(entry.first) < (len(releases) if entry.before is None else releases.index(entry.before))
        assert re.search(r"pytorch (issue|PR)s? \d+", entry.evidence)


def _attend(*shape: int, keys: tuple[int, ...] | None = None) -> Program:
    def attend() -> Any:
        key = made(*(keys or shape))
        return torch.ops.aten._scaled_dot_product_attention_math_for_mps(made(*shape), key, key)

    return attend


def _normalise(*statistics: torch.dtype, dtype: torch.dtype = HALF) -> Program:
    def normalise() -> Any:
        moments = [made(3, dtype=one) for one in statistics] or [None, None]
        return functional.batch_norm(made(2, 3, dtype=dtype), *moments, training=not statistics)

    return normalise


def _multiply(*shape: int) -> Program:
    batch, rows, inner = shape
    return lambda: torch.bmm(made(batch, rows, inner), made(batch, inner, rows))


DTYPES_AND_SIZES: list[tuple[str, Program, str, str | None]] = [
    ("2.0.0 2.0.1", lambda: made(2, dtype=LONG).bernoulli(0.5), "", "2.1.0"),
    ("2.0.1", lambda: torch.clamp(made(2, dtype=HALF), min=made(2)), "", "2.1.0"),
    ("2.0.0", lambda: functional.layer_norm(made(2, 3, dtype=HALF), (3,)), "", "2.1.0"),
    ("2.0.1", _normalise(), "", "2.1.0"),
    ("2.7.0 2.11.0", _normalise(FLOAT, FLOAT), "", "2.12.0"),
    ("2.1.1 2.5.1", lambda: functional.mse_loss(made(2, dtype=LONG), made(2, dtype=LONG)), "", "2.6.0"),
    ("2.9.1", lambda: made(2, dtype=COMPLEX).amax(), "", "2.10.0"),
    ("2.5.1", lambda: torch.add(made(2), made(2, dtype=LONG), alpha=2), "", "2.6.0"),
    ("2.4.0 2.5.1", lambda: torch.fmax(made(2), torch.tensor(0.5)), "", "2.6.0"),
    ("2.5.0 2.6.0", _attend(2, 2, 3, 4, 5), "", "2.7.0"),
    ("2.6.0", _attend(2, 4, 3, 5, keys=(2, 2, 3, 5)), "", "2.7.0"),
    ("2.7.1", _attend(1, 4, 2**14 + 1, 8), "", "2.8.0"),
    ("2.6.0", lambda: made(2**15 + 1, 2**15).masked_fill_(made(1, dtype=BOOL), 0), "", "2.7.0"),
    ("2.3.1 2.4.1", _multiply(17, 2**14, 1), "", "2.5.0"),
    ("2.5.1", _multiply(1, 2**16, 1), "", "2.6.0"),
    ("1.12.0", lambda: functional.binary_cross_entropy(made(5, 1), made(5, 1)), "", "1.13.0"),
]
TAKEN_BY_GRAPHS: list[tuple[str, Program]] = [
    ("2.0.1", lambda: torch.clamp(made(2, dtype=HALF), min=made(2, dtype=HALF))),
    ("2.0.1", _normalise(HALF, HALF)),
    ("2.0.1", _normalise(FLOAT, FLOAT, dtype=FLOAT)),
    ("2.5.1", lambda: torch.add(made(2), made(2, dtype=LONG))),
    ("2.5.1", lambda: torch.add(made(2), made(2), alpha=2)),
    ("2.5.1", lambda: torch.fmax(made(2), made())),
    ("2.6.0", _attend(2, 4, 3, 5, keys=(2, 1, 3, 5))),
    ("2.7.1", _attend(1, 4, 2**14, 8)),
    ("2.6.0", lambda: made(2**15, 2**15).masked_fill_(made(1, dtype=BOOL), 0)),
    ("2.5.1", _multiply(4, 2**15, 1)),
    ("1.12.1", lambda: functional.binary_cross_entropy(made(5, 2), made(5, 2))),
]


def test_dtypes_and_sizes_that_no_graph_takes_and_those_beside_them() -> None:
    assert not _fails(DTYPES_AND_SIZES)
    asked = [one.asked[-1] for row in TAKEN_BY_GRAPHS for one in judgements(*row)]
    assert "frameworks" not in asked


SVD, EIGH, QR = "_linalg_svd", "_linalg_eigh", "linalg_qr"
FUNCTIONS: dict[str, Function] = {
    SVD: torch.linalg.svd,
    EIGH: torch.linalg.eigh,
    QR: torch.linalg.qr,
    "linalg_lstsq": lambda tensor: torch.linalg.lstsq(tensor, tensor),
    "nonzero": torch.nonzero,
    "avg_pool2d": lambda images: functional.avg_pool2d(images, 2, divisor_override=3),
    "avg_pool2d without a divisor": lambda images: functional.avg_pool2d(images, 2),
}


@pytest.mark.parametrize(
    ("release", "operator", "shape", "dtype", "verdict", "since"),
    [
        ("2.15.0", SVD, (64, 128), FLOAT, "native", "2.14.0"),
        ("2.15.0", SVD, (64, 129), FLOAT, "fallback", None),
        ("2.15.0", SVD, (64, 64), COMPLEX, "native", "2.14.0"),
        ("2.15.0", SVD, (64, 65), COMPLEX, "fallback", None),
        ("2.15.0", SVD, (1, 8193), FLOAT, "fallback", None),
        ("2.15.0", SVD, (4, 4), FLOAT, "native", "2.14.0"),
        ("2.14.0", SVD, (4, 4), FLOAT, "fallback", "2.14.1"),
        ("2.14.0", SVD, (64, 129), FLOAT, "fallback", None),
        ("2.15.0", "linalg_lstsq", (128, 64), FLOAT, "native", "2.14.0"),
        ("2.15.0", "linalg_lstsq", (129, 64), FLOAT, "fallback", None),
        ("2.15.0", EIGH, (3, 64, 64), FLOAT, "native", "2.14.0"),
        ("2.15.0", EIGH, (3, 65, 65), FLOAT, "fallback", None),
        ("2.15.0", EIGH, (2, 64, 64), FLOAT, "fallback", None),
        ("2.14.0", EIGH, (7, 45, 45), COMPLEX, "native", "2.14.0"),
        ("2.14.0", EIGH, (7, 46, 46), COMPLEX, "fallback", None),
        ("2.15.0", EIGH, (0, 0), FLOAT, "native", "2.14.0"),
        ("2.13.0", EIGH, (9, 9), FLOAT, "missing", None),
        ("2.13.0", QR, (512, 600), FLOAT, "native", "2.12.0"),
        ("2.13.0", QR, (513, 600), FLOAT, "fallback", "2.14.0"),
        ("2.12.0", QR, (2, 600, 513), FLOAT, "fallback", "2.14.0"),
        ("2.14.0", QR, (513, 513), FLOAT, "native", "2.12.0"),
        ("2.11.0", QR, (512, 512), FLOAT, "missing", "2.12.0"),
        ("2.11.0", QR, (513, 513), FLOAT, "missing", "2.14.0"),
        ("2.11.0", "nonzero", (3,), COMPLEX, "fallback", "2.12.0"),
        ("2.11.0", "nonzero", (3,), FLOAT, "native", "2.0.0"),
        ("2.12.0", "nonzero", (3,), COMPLEX, "native", "2.0.0"),
        ("2.13.0", "avg_pool2d", (1, 1, 4, 4), LONG, "fallback", None),
        ("2.13.0", "avg_pool2d", (1, 1, 4, 4), FLOAT, "native", "1.12.0"),
        ("2.13.0", "avg_pool2d without a divisor", (1, 1, 4, 4), LONG, "native", "1.12.0"),
    ],
)
def test_what_fits_stays_and_the_kernel_leaves_the_rest_to_the_cpu(
    release: str, operator: str, shape: tuple[int, ...], dtype: torch.dtype, verdict: str, since: str | None
) -> None:
    [one] = judgements(release, _of(shape, FUNCTIONS[operator], dtype), operator.partition(" ")[0])
    assert (one.verdict, one.accepted_since) == (verdict, since)
    assert (one.asked[-1] == "left_to_cpu") is (verdict == "fallback")


def test_advice_does_not_say_that_there_is_no_kernel() -> None:
    [left] = judgements("2.15.0", _of((100, 100), torch.linalg.svd), SVD)
    advice = str(advise("aten::_linalg_svd", left, load_table("2.15.0"), "", 80000))
    assert "80.0 kB are copied" in advice and advice.endswith("2.15.0 keeps such a call on the GPU.")


def _weighted(function: Callable[..., Any], x: tuple[int, ...], weight: tuple[int, ...], **how: torch.dtype) -> Program:
    return lambda: function(made(*x, **how), made(*weight, **how))


HALF_LINEAR = _weighted(functional.linear, (2, 4), (4, 4), dtype=BF16)
VOLUME = _weighted(functional.conv3d, (1, 1, 4, 4, 4), (1, 1, 2, 2, 2))
CHANNELS = _weighted(functional.conv1d, (1, 1, 2), (65537, 1, 1))


@pytest.mark.parametrize(
    ("release", "program", "needs"),
    [
        ("2.6.0", HALF_LINEAR, ("14.0", "bfloat16")),
        ("2.6.0", lambda: torch.neg(made(2, dtype=COMPLEX)), ("14.0", "complex numbers")),
        ("2.6.0", lambda: torch.fft.rfft(made(8)), ("14.0", "complex numbers")),
        ("2.6.0", VOLUME, ("13.2", "convolutions in three dimensions")),
        ("2.6.0", CHANNELS, ("15.1", "convolutions with over 65536 channels")),
        ("2.13.0", CHANNELS, ("15.1", "convolutions with over 65536 channels")),
        ("2.8.0", lambda: torch.isin(made(2, dtype=INT), made(2, dtype=INT)), ("14.0", "isin of integers")),
        ("2.0.1", lambda: torch.nn.LSTM(4, 4, 3, device="mps")(made(2, 1, 4)), ("13.0", "an LSTM of several layers")),
        # What every system of the release has needs no condition.
        ("2.6.0", _weighted(functional.linear, (2, 4), (4, 4)), None),
        ("2.9.0", HALF_LINEAR, None),
        ("2.6.0", _weighted(functional.conv2d, (1, 1, 4, 4), (1, 1, 2, 2)), None),
        ("2.0.1", lambda: torch.nn.LSTM(4, 4, 1, device="mps")(made(2, 1, 4)), None),
    ],
)
def test_conditions_name_the_macos(release: str, program: Program, needs: tuple[str, str] | None) -> None:
    with torch.no_grad():
        found = macos_conditions(ran(release, program).recorder, load_table(release))
    assert [(one.macos, one.what) for one in found] == [needs] * (needs is not None)


def test_an_older_macos_refuses() -> None:
    def linear(macos: str) -> Judgement:
        return judgements("2.6.0", HALF_LINEAR, "linear", macos=macos)[0]

    assert (linear("13.3").verdict, linear("13.3").needs_macos) == ("unsupported", "14.0")
    assert [(one.verdict, one.needs_macos) for one in map(linear, ("14.0", "15.1"))] == [("native", None)] * 2


def test_an_older_macos_is_judged_where_a_framework_was_seen_to_fail() -> None:
    assert not wrong("frameworks", [("2.4.1", _of(FIVE, torch.all), "", "ends", "2.5.0")], macos="13.0")
    assert not wrong("frameworks", [("2.4.1", _of(FIVE, torch.any), "", "ends", "2.5.0")], macos="14.4")
    assert not not_native([("2.4.1", _of(FIVE, torch.any), "")], macos="13.0")
    assert not not_native([("2.14.0", _of((8, 32, 32), torch.linalg.svd), "")], macos="26.0")


def test_what_only_an_older_macos_fails_at_is_judged_where_that_is_named() -> None:
    def eye(dtype: torch.dtype) -> Program:
        return lambda: torch.eye(3, dtype=dtype, device="mps")

    assert not wrong("frameworks", [("1.13.1 2.0.1", eye(BOOL), "eye", "ends", "2.1.0")], macos="12.6")
    assert not not_native([("1.13.1", eye(FLOAT), ""), ("2.1.0", eye(BOOL), "")], macos="12.6")
    for macos in ("13.0", None):
        assert not not_native([("1.13.1", eye(BOOL), "")], macos=macos)


def test_a_macos_that_the_release_does_not_run_on_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"2\.15\.0 needs macOS 15\.0"):
        check_macos("14.5", load_table("2.15.0"))
    assert check_macos("15.0", load_table("2.15.0")) == Version("15.0")
