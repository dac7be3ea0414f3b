"""Calls that a kernel leaves to the CPU, at the boundaries that its code has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.judging.judgement import Judgement
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.scanner.advice import advise

_FACTORIES = ("aten::empty.memory_format", "aten::empty_strided", "aten::fill_.Scalar")


def _last(release: str, function: Callable[[torch.Tensor], Any], *shape: int, dtype: torch.dtype) -> Judgement:
    """The judgement on what ``function`` calls."""
    with VirtualDevice(load_table(release)) as device:
        tensor = torch.empty(shape, dtype=dtype, device="mps")
        with device.recording("forward"):
            function(tensor)
    (*_, record) = (record for record in device.recorder.calls() if record.operator not in _FACTORIES)
    return record.judgement


SVD, EIGH, QR, LSTSQ = (
    torch.linalg.svd,
    torch.linalg.eigh,
    torch.linalg.qr,
    lambda tensor: torch.linalg.lstsq(tensor, tensor),
)


@pytest.mark.parametrize(
    ("release", "function", "shape", "dtype", "verdict", "since"),
    [
        ("2.15.0", SVD, (64, 128), torch.float32, "native", "2.14.0"),
        ("2.15.0", SVD, (64, 129), torch.float32, "fallback", None),
        ("2.15.0", SVD, (64, 64), torch.complex64, "native", "2.14.0"),
        ("2.15.0", SVD, (64, 65), torch.complex64, "fallback", None),
        ("2.15.0", SVD, (1, 8193), torch.float32, "fallback", None),
        ("2.15.0", SVD, (4, 4), torch.float32, "native", "2.14.0"),
        ("2.14.0", SVD, (4, 4), torch.float32, "fallback", "2.14.1"),
        ("2.14.0", SVD, (64, 129), torch.float32, "fallback", None),
        ("2.15.0", LSTSQ, (128, 64), torch.float32, "native", "2.14.0"),
        ("2.15.0", LSTSQ, (129, 64), torch.float32, "fallback", None),
        ("2.15.0", EIGH, (3, 64, 64), torch.float32, "native", "2.14.0"),
        ("2.15.0", EIGH, (3, 65, 65), torch.float32, "fallback", None),
        ("2.15.0", EIGH, (2, 64, 64), torch.float32, "fallback", None),
        ("2.14.0", EIGH, (7, 45, 45), torch.complex64, "native", "2.14.0"),
        ("2.14.0", EIGH, (7, 46, 46), torch.complex64, "fallback", None),
        ("2.15.0", EIGH, (0, 0), torch.float32, "native", "2.14.0"),
        ("2.13.0", QR, (512, 600), torch.float32, "native", "2.12.0"),
        ("2.13.0", QR, (513, 600), torch.float32, "fallback", "2.14.0"),
        ("2.12.0", QR, (2, 600, 513), torch.float32, "fallback", "2.14.0"),
        ("2.14.0", QR, (513, 513), torch.float32, "native", "2.12.0"),
        ("2.11.0", torch.nonzero, (3,), torch.complex64, "fallback", "2.12.0"),
        ("2.11.0", torch.nonzero, (3,), torch.float32, "native", "2.0.0"),
        ("2.12.0", torch.nonzero, (3,), torch.complex64, "native", "2.0.0"),
    ],
)
def test_what_fits_stays(
    release: str,
    function: Callable[[torch.Tensor], Any],
    shape: tuple[int, ...],
    dtype: torch.dtype,
    verdict: str,
    since: str | None,
) -> None:
    judgement = _last(release, function, *shape, dtype=dtype)
    assert (judgement.verdict, judgement.accepted_since) == (verdict, since)
    assert (judgement.asked[-1] == "left_to_cpu") is (verdict == "fallback")


@pytest.mark.parametrize(("dtype", "divisor", "left"), [(torch.int64, 3, True), (torch.int64, None, False)])
def test_a_pool_of_whole_numbers_with_a_divisor(dtype: torch.dtype, divisor: int | None, left: bool) -> None:
    def pool(images: torch.Tensor) -> torch.Tensor:
        return functional.avg_pool2d(images, 2, divisor_override=divisor)

    assert (_last("2.13.0", pool, 1, 1, 4, 4, dtype=dtype).verdict == "fallback") is left
    assert _last("2.13.0", pool, 1, 1, 4, 4, dtype=torch.float32).verdict == "native"


@pytest.mark.parametrize(
    ("release", "function", "shape", "since"),
    [("2.11.0", QR, (512, 512), "2.12.0"), ("2.11.0", QR, (513, 513), "2.14.0"), ("2.13.0", EIGH, (9, 9), None)],
)
def test_an_upgrade_is_advised_to_a_release_that_keeps_the_call(
    release: str, function: Callable[[torch.Tensor], Any], shape: tuple[int, ...], since: str | None
) -> None:
    judgement = _last(release, function, *shape, dtype=torch.float32)
    assert (judgement.verdict, judgement.accepted_since) == ("missing", since)


def test_advice_does_not_say_that_there_is_no_kernel() -> None:
    judgement = _last("2.15.0", SVD, 100, 100, dtype=torch.float32)
    advice = str(advise("aten::_linalg_svd", judgement, load_table("2.15.0"), None, 80000))
    assert "80.0 kB are copied" in advice and advice.endswith("2.15.0 keeps such a call on the GPU.")
