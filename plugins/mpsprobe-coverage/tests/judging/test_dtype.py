"""Dtypes that no tensor of a release can have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.recorder import CallRecord
from mpsprobe_coverage.kernels.mps import load_table


def _refused(device: VirtualDevice) -> list[CallRecord]:
    return [record for record in device.recorder.calls() if record.judgement.verdict == "unsupported"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: torch.ones(2, device="mps", dtype=dtype),
        lambda dtype: torch.ones(2, device="mps").to(dtype),
        lambda dtype: torch.ones(2, dtype=dtype).to("mps"),
        lambda dtype: torch.tensor([1.0], dtype=dtype, device="mps"),
        lambda dtype: torch.ones(2, device="mps").type(dtype),
    ],
)
def test_64_bit_floating_point_is_unsupported_where_it_is_made(
    device: VirtualDevice, make: Callable[[torch.dtype], Any], dtype: torch.dtype
) -> None:
    with device.recording("forward"):
        make(dtype)
    refused = _refused(device)
    assert refused and all("64-bit floating point" in (record.judgement.reason or "") for record in refused)
    assert {record.judgement.source for record in refused} == {"dtype"}
    assert {record.origin.line for record in refused} == {make.__code__.co_firstlineno}


def test_a_double_on_the_cpu_is_nobodys_business(device: VirtualDevice) -> None:
    with device.recording("forward"):
        (torch.ones(2, dtype=torch.float64) * 2).float().to("mps")
    assert not _refused(device)


@pytest.mark.parametrize(
    ("release", "operation", "refused"),
    [
        ("2.1.2", torch.add, False),
        ("2.1.2", torch.mul, True),
        ("2.2.2", torch.mul, False),
        ("2.2.2", torch.div, True),
        ("2.3.0", torch.div, False),
    ],
)
def test_complex64_by_release(release: str, operation: Any, refused: bool) -> None:
    """What goes through ``binaryOpTensor`` raises in 2.1 and 2.2: "Complex types are unsupported on MPS"."""
    with VirtualDevice(load_table(release)) as device, device.recording("forward"):
        operation(
            torch.ones(2, dtype=torch.complex64, device="mps"), torch.ones(2, dtype=torch.complex64, device="mps")
        )
    assert bool(_refused(device)) is refused
