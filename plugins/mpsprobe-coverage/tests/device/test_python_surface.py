"""Tensors get onto the virtual device, and off it, in every way that programs use."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from expectations import TORCH_2_6

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table

_VALUES = [[1.0, 2.0], [3.0, 4.0]]

_WAYS: list[Callable[[], Any]] = [
    lambda: torch.tensor(_VALUES).to("mps"),
    lambda: torch.tensor(_VALUES).to(torch.device("mps", 0)),
    lambda: torch.tensor(_VALUES).to(device="mps", non_blocking=True),
    lambda: torch.tensor(_VALUES, dtype=torch.float64).to("mps", torch.float32),
    lambda: torch.tensor(_VALUES).to(torch.ones(1, device="mps")),
    lambda: torch.tensor(_VALUES, device="mps"),
    lambda: torch.as_tensor(_VALUES, device="mps"),
    lambda: torch.asarray(_VALUES, device="mps"),
    lambda: torch.ones(1, device="mps").new_tensor(_VALUES),
    lambda: torch.full((2, 2), 2.0, device="mps") + torch.tensor([[-1.0, 0.0], [1.0, 2.0]], device="mps"),
    lambda: torch.arange(1.0, 5.0, device="mps").reshape(2, 2),
    lambda: torch.from_numpy(torch.tensor(_VALUES).numpy()).to("mps"),
    lambda: torch.ones(1, device="mps").new_zeros(2, 2).add_(torch.tensor(_VALUES, device="mps")),
    lambda: torch.zeros_like(torch.ones(2, 2, device="mps")) + torch.tensor(_VALUES, device="mps"),
]


def test_onto_the_device(device: VirtualDevice) -> None:
    for way in _WAYS:
        made = way()
        assert (made.device, made.dtype, tuple(made.shape)) == (torch.device("mps", 0), torch.float32, (2, 2))
        assert made.is_mps and not made.is_cpu and not made.is_meta and made.get_device() == 0
        assert made.tolist() == _VALUES
    assert not list(device.recorder.assumptions())


def test_the_device_context_makes_everything_there(device: VirtualDevice) -> None:
    with torch.device("mps"):
        made = [torch.zeros(2), torch.tensor([1, 2]), torch.arange(3), torch.rand(2), torch.nn.Linear(2, 3).weight]
        assert torch.get_default_device() == torch.device("cpu" if TORCH_2_6 else "mps:0")
    assert {tensor.device.type for tensor in made} == {"mps"}
    assert torch.zeros(2).device.type == "cpu"


def test_off_the_device(device: VirtualDevice) -> None:
    tensor = torch.tensor([1.5, 2.5], device="mps")
    assert type(tensor.cpu()) is torch.Tensor and tensor.cpu().device.type == "cpu"
    assert tensor.to("cpu").tolist() == [1.5, 2.5]
    assert tensor[1].item() == 2.5 and float(tensor[0]) == 1.5 and bool(tensor[0] > 1)
    assert tensor.cpu().numpy().tolist() == tensor.numpy(force=True).tolist() == [1.5, 2.5]


def test_numpy_refuses_as_on_a_mac(device: VirtualDevice) -> None:
    tensor = torch.tensor([1.5], device="mps")
    for refused in (tensor.numpy, lambda: memoryview(tensor.__array__())):
        with pytest.raises(TypeError, match="mps:0 device type tensor to numpy"):
            refused()


def test_copies_between_devices_are_recorded_as_copies(device: VirtualDevice) -> None:
    with device.recording("forward"):
        torch.ones(4).to("mps").cpu()
    (copies,) = device.recorder.calls()
    assert (copies.operator, copies.judgement.verdict, copies.calls) == ("aten::copy_", "native", 2)


def test_data_can_be_read_and_replaced(device: VirtualDevice) -> None:
    parameter = device.move(torch.nn.Parameter(torch.ones(2, 3)))
    assert parameter.data.device.type == "mps" and not parameter.data.requires_grad
    parameter.data = torch.full((3, 4), 2.0, device="mps")
    assert tuple(parameter.shape) == (3, 4) and parameter.requires_grad
    assert parameter.sum().item() == 24.0
    assert tuple(parameter.data.mul_(2).shape) == (3, 4) and parameter.sum().item() == 48.0


def test_a_deep_copy_is_a_tensor_of_its_own(device: VirtualDevice) -> None:
    tensor = torch.ones(2, device="mps")
    copied = copy.deepcopy(tensor)
    copied.add_(1)
    assert (tensor.tolist(), copied.tolist()) == ([1.0, 1.0], [2.0, 2.0])


def test_types_are_those_of_mps(device: VirtualDevice) -> None:
    tensor = torch.ones(2, device="mps")
    assert tensor.type() == "torch.mps.FloatTensor"
    assert tensor.type(torch.float16).dtype is torch.float16
    assert tensor.half().device.type == "mps"
    assert "mps:0" in repr(tensor)
    assert isinstance(tensor, torch.Tensor) and torch.is_tensor(tensor)
    assert tensor.element_size() == 4 and tensor.nbytes == 8 and tensor.numel() == 2


def test_nested_inputs_move_with_their_containers(device: VirtualDevice) -> None:
    moved = device.move({"a": [torch.ones(1), (torch.ones(2), "text", None)], "b": {"c": torch.ones(3)}})
    assert moved["a"][0].device.type == moved["a"][1][0].device.type == moved["b"]["c"].device.type == "mps"
    assert moved["a"][1][1:] == ("text", None) and type(moved["a"][1]) is tuple


def test_tied_parameters_stay_tied(device: VirtualDevice) -> None:
    model = torch.nn.ModuleDict({"embedding": torch.nn.Embedding(5, 3), "head": torch.nn.Linear(3, 5, bias=False)})
    model.head.weight = model.embedding.weight
    device.move(model)
    assert model.head.weight is model.embedding.weight
    assert len(list(model.parameters())) == 1
    model.head(model.embedding(torch.tensor([1, 2], device="mps"))).sum().backward()
    assert tuple(model.embedding.weight.grad.shape) == (5, 3)


def test_random_numbers_have_shapes_and_no_influence(device: VirtualDevice) -> None:
    torch.manual_seed(0)
    expected = torch.rand(3).tolist()
    torch.manual_seed(0)
    made = [torch.rand(2, device="mps"), torch.randint(0, 5, (2,), device="mps"), torch.randperm(4, device="mps")]
    assert [tuple(t.shape) for t in made] == [(2,), (2,), (4,)]
    torch.manual_seed(0)
    assert torch.rand(3).tolist() == expected


def test_a_model_is_built_as_where_mps_is_there() -> None:
    def table() -> torch.Tensor:
        return torch.arange(4, dtype=torch.float32 if torch.backends.mps.is_available() else torch.float64)

    before = torch.backends.mps.is_available(), torch.Generator
    with VirtualDevice(load_table("2.13.0")).construction():
        assert table().dtype == torch.float32
        assert torch.Generator(device="mps").device.type == "mps"
    assert (torch.backends.mps.is_available(), torch.Generator) == before
