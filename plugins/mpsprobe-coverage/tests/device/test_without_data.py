"""What comes out of calls that no reference computes as they are: another dtype, smaller tensors, what was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from expectations import called

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.tensor import spec_of
from mpsprobe_coverage.judging.judgement import EVERYWHERE
from mpsprobe_coverage.kernels.mps import load_table

Shape = tuple[tuple[int, ...], torch.dtype]
LARGE = 2**31 + 8
# The CPU has no code for these dtypes, or for so many elements; what is expected is what another dtype or size gives.
GO_ON: dict[str, tuple[Callable[[Any], Any], Shape]] = {
    "unique of complex numbers": (lambda x: x.to(torch.complex64).unique(), ((1,), torch.complex64)),
    "counts of floats": (torch.bincount, ((2,), torch.int64)),
    "largest of complex numbers": (lambda x: x.to(torch.complex64).cummax(0)[1], ((3,), torch.int64)),
    "histogram of complex numbers": (lambda x: torch.histogram(x.to(torch.complex64), 4)[0], ((4,), torch.complex64)),
    "sum over many": (lambda x: x[:1].expand(LARGE).cumsum(0), ((LARGE,), torch.float32)),
    "rows of many": (lambda x: x[:2, None].expand(2, LARGE).cumsum(1), ((2, LARGE), torch.float32)),
    "difference of many": (lambda x: x[:1].expand(LARGE).diff(), ((LARGE - 1,), torch.float32)),
    "places in many": (lambda x: (x[:1].expand(LARGE) > 0).nonzero(), ((LARGE, 1), torch.int64)),
    "places in rows": (lambda x: (x[:1, None].expand(5000, 6000) > 0).nonzero(), ((30_000_000, 2), torch.int64)),
    "selected of many by a mask with fewer": (
        lambda x: x[:1, None].expand(3, LARGE).masked_select(torch.tensor([[True], [False], [True]], device="mps")),
        ((2 * LARGE,), torch.float32),
    ),
    "sorted many": (lambda x: x[:1].expand(LARGE).sort()[1], ((LARGE,), torch.int64)),
}


@pytest.mark.parametrize("name", GO_ON)
def test_the_run_goes_on_with_the_size_that_the_call_would_have(device: VirtualDevice, name: str) -> None:
    run, expected = GO_ON[name]
    with device.recording("forward"):
        made = run(torch.ones(3, device="mps"))
    assert (tuple(made.shape), made.dtype) == expected


def test_strides_follow_from_those_of_smaller_tensors(device: VirtualDevice) -> None:
    x = torch.ones(1, 1, device="mps").expand(LARGE, 3).transpose(0, 1)
    assert spec_of(x.cumsum(1)).stride == (LARGE, 1)


@pytest.mark.parametrize(
    ("a", "b", "shape"),
    [
        ((4, 8), (2, 8, 2**24), (4, 2**24)),
        ((2, 4, 8), (8, 2**24), (4, 2**24)),
        ((4, 8), (8, 2**24), (2, 4, 2**24)),
        ((2, 4, 8), (2, 8, 2**24), (2, 4, 2**24)),
    ],
)
def test_products_of_groups(a: tuple[int, ...], b: tuple[int, ...], shape: tuple[int, ...]) -> None:
    with VirtualDevice(load_table("2.15.0")) as device, device.recording("forward"):
        offsets = torch.tensor([2, 8], dtype=torch.int32, device="mps")
        made = torch._grouped_mm(torch.ones(a, device="mps"), torch.ones(b, device="mps"), offsets)
    assert (tuple(made.shape), made.dtype) == (shape, torch.float32)
    assert called(device.recorder, "forward")["native:aten::_grouped_mm"] == 1


@pytest.mark.parametrize(("release", "verdict"), [("2.14.0", "unsupported"), ("2.14.1", "native")])
def test_a_composite_kernel_that_needs_a_stub_itself(release: str, verdict: str) -> None:
    """``conj_physical_`` asks for the kernel of the device, and on meta there is none either."""
    with VirtualDevice(load_table(release)) as device, device.recording("forward"):
        x = torch.ones(3, device="mps").to(torch.complex64)
        assert x.conj_physical_() is x
        torch.ones(3, device="mps").conj_physical_()
    assert called(device.recorder, "forward")[f"{verdict}:aten::conj_physical_"] == 1


@pytest.mark.parametrize(("release", "verdict"), [("1.13.1", "missing"), ("2.0.0", "unsupported")])
def test_counts_of_floats(release: str, verdict: str) -> None:
    with VirtualDevice(load_table(release)) as device, device.recording("forward"):
        torch.bincount(torch.ones(3, device="mps"))
        torch.bincount(torch.ones(3, device="mps", dtype=torch.int32))
    seen = called(device.recorder, "forward")
    assert seen[f"{verdict}:aten::bincount"] == (1 if verdict == "unsupported" else 2)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "mean of truth values": (lambda x: x.bool().mean(), "aten::mean.dim"),
    "difference of truth values": (lambda x: x.bool() - x.bool(), "aten::sub.Tensor"),
    "norm of whole numbers": (lambda x: torch.linalg.vector_norm(x.long()), "aten::linalg_vector_norm"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_every_device_refuses_raises_and_is_a_finding(device: VirtualDevice, name: str) -> None:
    run, operator = REFUSED[name]
    x = torch.ones(3, device="mps")
    with device.recording("forward"):
        for _ in range(2):  # what is remembered of a call says the same
            with pytest.raises(RuntimeError) as raised:
                run(x)
    (record,) = [r for r in device.recorder.calls() if r.judgement.verdict == "unsupported"]
    assert (record.operator, record.calls) == (operator, 2)
    assert (record.judgement.reason, record.judgement.evidence) == (str(raised.value), EVERYWHERE)


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "sizes": lambda x: x.bool() - torch.ones(4, device=x.device, dtype=torch.bool),
    "two dtypes": lambda x: torch.bmm(x.half()[None, None], x[None, :, None]),
    "a dimension that is not there": lambda x: x.bool().cumsum(3),
    "many": lambda x: x[:1].expand(LARGE) + x[:1].expand(LARGE + 1),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_the_program_is_no_finding(device: VirtualDevice, name: str) -> None:
    with device.recording("forward"), pytest.raises((RuntimeError, IndexError)):
        MISTAKES[name](torch.ones(3, device="mps"))
    assert {r.judgement.verdict for r in device.recorder.calls()} <= {"native"}
