"""What C++ refuses by the type of a device; convolutions and LSTMs are among the cases of the device's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table


def _refusals(device: VirtualDevice) -> list[str | None]:
    judgements = [record.judgement for record in device.recorder.calls()]
    return [judgement.reason for judgement in judgements if judgement.asked[-1] == "route"]


def test_indices_of_tensor_split_must_be_on_the_cpu(device: VirtualDevice) -> None:
    """The check in ``TensorShape.cpp`` raises for indices on MPS; sections and CPU indices are taken."""
    tensor, places = torch.arange(6.0, device="mps"), torch.tensor([1, 4])
    with device.recording("forward"):
        parts = [*tensor.tensor_split(places), *tensor.tensor_split(2), *torch.tensor_split(tensor, [2])]
    assert [tuple(part.shape) for part in parts] == [(1,), (3,), (2,), (3,), (3,), (2,), (4,)]
    assert not _refusals(device)
    with device.recording("forward"):
        parts = list(torch.tensor_split(tensor, places.to("mps")))
    assert [tuple(part.shape) for part in parts] == [(1,), (3,), (2,)]
    assert _refusals(device) == ["tensor_split expected tensor_indices_or_sections to be on cpu, but it's on mps:0"]


def test_unknown_indices_of_tensor_split_are_assumed(device: VirtualDevice) -> None:
    with device.recording("forward"):
        places = (torch.rand(100000, device="mps")[:2] * 3).long()
        parts = torch.rand(4, device="mps").tensor_split(places)
    assert len(parts) == 3 and len(_refusals(device)) == 1
    assert any(note.operator.startswith("aten::tensor_split") for note in device.recorder.assumptions())


def _convolve(
    function: Callable[..., torch.Tensor], shape: tuple[int, ...], weight: tuple[int, ...], **rest: Any
) -> torch.Tensor:
    half = {"dtype": torch.float16, "device": "mps"}
    return function(torch.empty(shape, **half), torch.empty(weight, **half), **rest)


@pytest.mark.parametrize(
    ("function", "shape", "weight", "rest", "fits"),
    [
        (functional.conv1d, (1, 1, 2**31 - 1), (1, 1, 1), {}, True),
        (functional.conv1d, (1, 1, 2**31), (1, 1, 1), {"stride": 2}, False),
        (functional.conv1d, (3, 1, 2**31 - 1), (1, 1, 1), {}, True),  # each entry of the batch by itself
        (functional.conv2d, (1, 1, 2**15, 2**15), (2, 1, 1, 1), {}, False),  # the result
        (functional.conv2d, (1, 1, 2**15, 2**15), (2, 1, 2, 2), {}, True),
        (functional.conv2d, (1, 2, 2**15, 2**15 - 1), (2, 1, 1, 1), {"groups": 2}, True),
        (functional.conv2d, (1, 2, 2**15, 2**15 - 1), (2, 1, 1, 3), {"groups": 2, "padding": (0, 2)}, False),
        (functional.conv2d, (1, 2, 2**15, 2**15 - 1), (2, 1, 1, 3), {"groups": 2, "dilation": 3}, True),
        (functional.conv_transpose2d, (1, 1, 2**14, 2**14), (1, 2, 1, 1), {"stride": 2}, True),
        (functional.conv_transpose2d, (1, 1, 2**14, 2**14), (1, 2, 2, 2), {"stride": 2}, False),
        (functional.conv_transpose3d, (1, 1, 2**14, 2**14, 2), (1, 2, 2, 2, 1), {"stride": (2, 2, 1)}, False),
        (functional.conv3d, (1, 256, 5, 1088, 1920), (128, 256, 1, 1, 1), {}, False),
    ],
)
def test_convolutions_whose_entries_need_64_bits(
    function: Callable[..., torch.Tensor],
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    rest: dict[str, Any],
    fits: bool,
) -> None:
    """``ConvParams::use_mps`` says no to them; from 2.14.0 on it takes volumes that are not transposed."""
    for release in ("2.3.1", "2.13.0", "2.15.0"):
        with VirtualDevice(load_table(release)) as device, device.recording("forward"):
            _convolve(function, shape, weight, **rest)
        record = list(device.recorder.calls())[2]
        volume = function is functional.conv3d
        taken = fits or (volume and release == "2.15.0")
        assert (record.operator == "aten::convolution_overrideable") is not taken
        if not taken:
            assert record.judgement.verdict == "unsupported"
            assert record.judgement.accepted_since == ("2.14.0" if volume else None)


def test_the_gradient_of_a_convolution_that_needs_64_bits() -> None:
    with VirtualDevice(load_table("2.13.0")) as device:
        images = torch.empty(1, 1, 2**15, 2**15, device="mps", dtype=torch.float16)
        weight = torch.empty(2, 1, 1, 1, device="mps", dtype=torch.float16, requires_grad=True)
        with device.recording("backward"):
            functional.conv2d(images, weight).sum().backward()
    assert weight.grad is not None and weight.grad.shape == weight.shape
    found = {record.operator: record.judgement.reason for record in device.recorder.calls()}
    assert "2**31" in str(found["aten::convolution_backward_overrideable"])
