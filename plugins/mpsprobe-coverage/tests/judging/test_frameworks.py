"""Calls with which a kernel ends the process, at their boundaries."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from packaging.version import Version
from torch.nn import functional

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.judging import chain
from mpsprobe_coverage.judging.frameworks import FRAMEWORKS
from mpsprobe_coverage.judging.judgement import Judgement
from mpsprobe_coverage.kernels.mps import load_table, torch_releases
from mpsprobe_coverage.scanner.advice import advise

_FIVE, _SIX = (1, 2, 3, 4, 5), (2, 1, 2, 1, 2, 1)


def _judged(
    release: str, function: Callable[[torch.Tensor], Any], shape: tuple[int, ...], macos: str | None = None
) -> Judgement:
    """The worst judgement on what ``function`` calls."""
    judges = chain.Chain(load_table(release), macos=None if macos is None else Version(macos))
    with VirtualDevice(judges) as device:
        tensor = torch.empty(shape, device="mps")
        with device.recording("forward"):
            function(tensor)
    judgements = [record.judgement for record in device.recorder.calls()]
    return next((one for one in judgements if one.verdict == "unsupported"), judgements[-1])


@pytest.mark.parametrize(
    ("function", "shape", "fails", "takes"),
    [
        (lambda x: x.cumsum(0), _FIVE, ["2.0.0", "2.7.0", "2.12.1"], "2.13.0"),
        (lambda x: x.cumsum_(-5), _FIVE, ["2.7.0"], "2.13.0"),
        (lambda x: x.cumsum(1), _SIX, ["2.7.0"], "2.13.0"),
        (lambda x: x.cumprod(0), _FIVE, ["2.1.0", "2.12.1"], "2.13.0"),
        (lambda x: x.sort(0), _FIVE, ["2.0.0", "2.11.0"], "2.12.0"),
        (lambda x: x.sort(1), _SIX, ["2.11.0"], "2.12.0"),
        (lambda x: x.sort(0), _SIX, ["2.4.1", "2.12.1"], "2.13.0"),
        (lambda x: x.topk(1, 0), _FIVE, ["2.0.0", "2.7.1"], "2.13.0"),
        (lambda x: x.median(0), _FIVE, ["2.0.0", "2.13.0"], "2.14.0"),
        (lambda x: x.nanmedian(-5), _FIVE, ["2.13.0"], "2.14.0"),
        (lambda x: x.all(), _FIVE, ["2.0.0", "2.4.1"], "2.5.0"),
        (lambda x: x.any(), _FIVE, ["2.4.1"], "2.5.0"),
        (lambda x: x.all(dim=0), _FIVE, ["2.4.1"], "2.5.0"),
        (lambda x: x.sum(dim=-2), (2, 4, 1, 30, 1), ["2.1.0", "2.4.1"], "2.5.0"),
        (lambda x: x.mean(dim=-4), (2, 4, 1, 30, 1), ["2.4.1"], "2.5.0"),
        (lambda x: x.amax(dim=-5), (2, 4, 1, 30, 1), ["2.4.1"], "2.5.0"),
        (lambda x: torch.fft.fftn(x, dim=(1, 2)), (2, 1, 1, 1, 2, 2), ["2.3.0", "2.13.0"], "2.14.0"),
        (lambda x: torch.fft.rfft(x, dim=0), _FIVE, ["2.3.0", "2.13.0"], "2.14.0"),
        (lambda x: torch.fft.hfft(x, dim=-5), (4, 2, 3, 4, 5), ["2.3.0", "2.13.0"], "2.14.0"),
        (torch.linalg.inv_ex, (1025, 1025), ["2.0.0", "2.7.1"], "2.8.0"),
        (lambda x: functional.linear(x, x[0, 0, 0]), (2, 64, 2, 2, 2), ["2.2.2"], "2.3.0"),
        (lambda x: torch.addmm(x, x, x.half()), (2, 2), ["2.0.0", "2.13.0"], "2.14.0"),
    ],
)  # fmt: skip
def test_it_fails_in_those_releases(
    function: Callable[[torch.Tensor], Any], shape: tuple[int, ...], fails: list[str], takes: str
) -> None:
    for release in fails:
        judgement = _judged(release, function, shape)
        assert (judgement.verdict, judgement.source, judgement.asked[-1]) == ("unsupported", "issue", "frameworks")
        assert str(judgement.reason).startswith(("ends the process: ", "raises IndexError"))
        assert judgement.accepted_since == takes
    assert _judged(takes, function, shape).verdict == "native"


def test_a_product_of_two_dtypes_ends_the_process_and_then_raises() -> None:
    reasons = [_judged(release, lambda x: x @ x.half(), (2, 2)).reason for release in ("2.6.0", "2.7.0", "2.15.0")]
    assert reasons == [
        "ends the process: MPSGraph infers no type for an operation on float32 and float16",
        *["mat1 and mat2 have two dtypes: RuntimeError"] * 2,
    ]
    assert _judged("2.15.0", lambda x: x.half() @ x.half(), (2, 2)).verdict == "native"


@pytest.mark.parametrize(
    ("release", "function", "shape"),
    [
        ("2.7.0", lambda x: x.cumsum(1), _FIVE),
        ("2.7.0", lambda x: x.cumsum(-6), (0, *_FIVE)),
        ("2.7.0", lambda x: x.cumsum(0), _FIVE[1:]),
        ("2.7.0", lambda x: x.topk(0, 0), _FIVE),
        ("2.7.0", torch.linalg.inv_ex, (1024, 1024)),
        ("2.7.0", torch.linalg.inv_ex, (2, 1025, 1025)),
        ("2.7.0", lambda x: torch.fft.fftn(x, dim=(1, 2)), _FIVE),
        ("2.7.0", lambda x: torch.fft.fftn(x), _FIVE[1:]),
        ("2.12.0", lambda x: x.sort(1), _SIX),
        ("2.4.1", lambda x: x.all(), _FIVE[1:]),
        ("2.4.1", lambda x: x.any(dim=1), _FIVE),
        ("2.4.1", lambda x: x.sum(dim=3), (2, 4, 1, 30, 1)),
        ("2.4.1", lambda x: x.sum(dim=-3), (2, 4, 1, 30, 1)),  # a wrong result, of fewer elements
        ("2.4.1", lambda x: x.sum(dim=-2), (2, 4, 1, 30, 2)),
        ("2.4.1", lambda x: x.sum(), (2, 4, 1, 30, 1)),
        ("2.0.1", lambda x: x.sum(dim=-2), (2, 4, 1, 30, 1)),
        ("2.2.2", lambda x: functional.linear(x, x[0, 0, 0, 0, None]), (1, 64, 2, 2, 2)),
        ("2.2.2", lambda x: functional.linear(x, x[0, 0, 0, 0, None], x[0, 0, 0, 0, :1]), (2, 32, 2, 2, 2)),
    ],
)  # fmt: skip
def test_what_is_beside_it_is_native(release: str, function: Callable[[torch.Tensor], Any], shape: Any) -> None:
    assert _judged(release, function, shape).verdict == "native"


@pytest.mark.parametrize(("release", "source"), [("2.7.1", "issue"), ("2.8.0", "message"), ("2.12.1", "message")])
def test_topk_said_so_itself_from_2_8_on(release: str, source: str) -> None:
    judgement = _judged(release, lambda x: x.topk(1, 0), _FIVE)
    assert (judgement.verdict, judgement.source, judgement.accepted_since) == ("unsupported", source, "2.13.0")


def test_an_older_macos_is_judged_where_it_was_seen_to_fail() -> None:
    assert _judged("2.4.1", lambda x: x.all(), _FIVE, macos="13.0").verdict == "unsupported"
    assert _judged("2.4.1", lambda x: x.any(), _FIVE, macos="13.0").verdict == "native"
    assert _judged("2.4.1", lambda x: x.any(), _FIVE, macos="14.4").verdict == "unsupported"


@pytest.mark.parametrize(
    ("shape", "verdict"),
    [((32, 32, 8), "unsupported"), ((8191, 1), "fallback"), ((8192, 1), "unsupported"), ((8193, 1), "fallback")],
)
def test_the_kernel_of_svd_does_not_compile_in_2_14_0(shape: tuple[int, ...], verdict: str) -> None:
    judgement = _judged("2.14.0", torch.linalg.svd, shape)
    assert judgement.verdict == verdict
    if verdict == "unsupported":
        assert (judgement.source, judgement.accepted_since) == ("issue", "2.14.1")


def test_without_a_kernel_no_release_is_advised_that_fails() -> None:
    judgement = _judged("2.13.0", torch.linalg.svdvals, (8, 64, 64))
    assert (judgement.verdict, judgement.accepted_since) == ("missing", "2.14.1")


def test_advice_names_the_release() -> None:
    judgement = _judged("2.7.0", lambda x: x.cumsum(0), _FIVE)
    advice = advise("aten::cumsum", judgement, load_table("2.7.0"), None, 0)
    assert advice == (
        "It ends the process: neither try nor the environment variable prevents that. "
        "Accepted from torch 2.13.0 on: upgrade, or change the call."
    )
    raised = _judged("2.8.0", lambda x: x.topk(1, 0), _FIVE)
    advice = advise("aten::topk", raised, load_table("2.8.0"), None, 0)
    assert not raised.ends_process and str(advice).endswith("The environment variable does not help.")


def test_every_entry_is_of_releases_with_a_table_and_has_its_source() -> None:
    releases = torch_releases()
    for entry in FRAMEWORKS.entries:
        assert releases.index(entry.first) <= releases.index(entry.last or releases[-1])
        assert re.search(r"pytorch (issue|PR)s? \d+", entry.evidence)


def _worst(release: str, program: Callable[[], Any]) -> Judgement:
    with VirtualDevice(chain.Chain(load_table(release))) as device, device.recording("forward"):
        program()
    judgements = [record.judgement for record in device.recorder.calls()]
    return next((one for one in judgements if one.asked[-1] == "frameworks"), judgements[-1])


def _made(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="mps")


_HALF, _LONG, _COMPLEX = torch.float16, torch.int64, torch.complex64


def _attend(*shape: int, keys: tuple[int, ...] | None = None) -> Any:
    key = _made(*(keys or shape))
    return torch.ops.aten._scaled_dot_product_attention_math_for_mps(_made(*shape), key, key)


@pytest.mark.parametrize(
    ("program", "fails", "takes"),
    [
        (lambda: _made(2, dtype=_LONG).bernoulli(0.5), ["2.0.0", "2.0.1"], "2.1.0"),
        (lambda: torch.clamp(_made(2, dtype=_HALF), min=_made(2)), ["2.0.1"], "2.1.0"),
        (lambda: functional.layer_norm(_made(2, 3, dtype=_HALF), (3,)), ["2.0.0"], "2.1.0"),
        (lambda: functional.batch_norm(_made(2, 3, dtype=_HALF), None, None, training=True), ["2.0.1"], "2.1.0"),
        (lambda: functional.batch_norm(_made(2, 3, dtype=_HALF), _made(3), _made(3)), ["2.7.0", "2.11.0"], "2.12.0"),
        (lambda: functional.mse_loss(_made(2, dtype=_LONG), _made(2, dtype=_LONG)), ["2.1.1", "2.5.1"], None),
        (lambda: _made(2, dtype=_COMPLEX).amax(), ["2.9.1"], None),
        (lambda: torch.add(_made(2), _made(2, dtype=_LONG), alpha=2), ["2.5.1"], "2.6.0"),
        (lambda: torch.fmax(_made(2), torch.tensor(0.5)), ["2.4.0", "2.5.1"], "2.6.0"),
        (lambda: _attend(2, 2, 3, 4, 5), ["2.5.0", "2.6.0"], "2.7.0"),
        (lambda: _attend(2, 4, 3, 5, keys=(2, 2, 3, 5)), ["2.6.0"], "2.7.0"),
        (lambda: _attend(1, 4, 2**14 + 1, 8), ["2.7.1"], "2.8.0"),
        (lambda: _made(2**15 + 1, 2**15).masked_fill_(_made(1, dtype=torch.bool), 0), ["2.6.0"], "2.7.0"),
        (lambda: torch.bmm(_made(17, 2**14, 1), _made(17, 1, 2**14)), ["2.3.1", "2.4.1"], "2.5.0"),
        (lambda: torch.bmm(_made(1, 2**16, 1), _made(1, 1, 2**16)), ["2.5.1"], "2.6.0"),
        (lambda: functional.binary_cross_entropy(_made(5, 1), _made(5, 1)), ["1.12.0"], "1.13.0"),
    ],
)  # fmt: skip
def test_dtypes_and_sizes_that_no_graph_takes(program: Callable[[], Any], fails: list[str], takes: str | None) -> None:
    for release in fails:
        judgement = _worst(release, program)
        assert (judgement.verdict, judgement.asked[-1]) == ("unsupported", "frameworks")
        assert str(judgement.reason).startswith(("ends the process: ", "raises: "))
        if takes is not None:
            assert judgement.accepted_since == takes
    if takes is not None:
        assert _worst(takes, program).asked[-1] != "frameworks"


@pytest.mark.parametrize(
    ("release", "program"),
    [
        ("2.0.1", lambda: torch.clamp(_made(2, dtype=_HALF), min=_made(2, dtype=_HALF))),
        ("2.0.1", lambda: functional.batch_norm(_made(2, 3, dtype=_HALF), *[_made(3, dtype=_HALF)] * 2)),
        ("2.0.1", lambda: functional.batch_norm(_made(2, 3), _made(3), _made(3))),
        ("2.5.1", lambda: torch.add(_made(2), _made(2, dtype=_LONG))),
        ("2.5.1", lambda: torch.add(_made(2), _made(2), alpha=2)),
        ("2.5.1", lambda: torch.fmax(_made(2), _made())),
        ("2.6.0", lambda: _attend(2, 4, 3, 5, keys=(2, 1, 3, 5))),
        ("2.7.1", lambda: _attend(1, 4, 2**14, 8)),
        ("2.6.0", lambda: _made(2**15, 2**15).masked_fill_(_made(1, dtype=torch.bool), 0)),
        ("2.5.1", lambda: torch.bmm(_made(4, 2**15, 1), _made(4, 1, 2**15))),
        ("1.12.1", lambda: functional.binary_cross_entropy(_made(5, 2), _made(5, 2))),
    ],
)
def test_calls_that_graphs_take(release: str, program: Callable[[], Any]) -> None:
    assert _worst(release, program).asked[-1] != "frameworks"
