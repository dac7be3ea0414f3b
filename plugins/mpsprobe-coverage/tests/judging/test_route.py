"""What C++ refuses by the type of a device; convolutions and LSTMs are among the cases of the device's tests."""

from __future__ import annotations

import torch

from mpsprobe_coverage.device import VirtualDevice


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
