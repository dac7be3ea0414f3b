"""Large tensors that a program makes on the CPU, on a device without data: shapes, and what is read is listed."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator

import pytest
import torch
from safetensors import torch as safetensors
from torch import nn
from torch._subclasses import FakeTensor
from torch.utils.data import DataLoader, TensorDataset

from mpsprobe_coverage.device import VirtualDevice, elsewhere
from mpsprobe_coverage.kernels.mps import load_table


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[VirtualDevice]:
    """An open device for which 64 elements are few, and more are many."""
    monkeypatch.setattr(elsewhere, "LARGE", 64)
    with VirtualDevice(load_table("2.13.0"), data_on_cpu=False) as opened, opened.recording("forward"):
        yield opened


def _assumed(device: VirtualDevice) -> dict[str, str]:
    return {note.operator: note.text for note in device.recorder.assumptions()}


def _has_data(tensor: torch.Tensor) -> bool:
    return not isinstance(tensor, FakeTensor)


def test_what_is_large_has_no_data(device: VirtualDevice) -> None:
    small, large = torch.arange(64), torch.randn(8, 9)
    read = torch.frombuffer(bytearray(81), dtype=torch.uint8)  # the program's own memory
    made = {
        "small": small, "computed": small * 2, "filled": torch.zeros(3, 3),
        "large": large, "from large": large[0], "sum": large.sum() + 1, "range": torch.arange(65),
        "drawn": torch.rand(65), "copied": small[:1].expand(65).clone(), "with small": large + torch.ones(9),
    }  # fmt: skip
    assert [name for name, tensor in made.items() if _has_data(tensor)] == ["small", "computed", "filled"]
    assert all(tensor.device.type == "cpu" for tensor in made.values())
    assert made["computed"].tolist() == [2 * number for number in range(64)]
    assert _has_data(read) and _has_data(read[:70]) and not _has_data(read.float())
    assert read.sum().item() == 0 and not _assumed(device)


def test_what_is_read_is_assumed_and_listed(device: VirtualDevice) -> None:
    x = torch.randn(8, 9)
    assert not _assumed(device)
    assert (x.sum().item(), bool(x.isfinite().all()), bool((x > 0).any())) == (1.0, True, False)
    assert len(x[x > 0]) == 72
    assert x.numpy().sum() == 0 and len(x.tolist()) == 8
    assert repr(x) == "tensor(..., device='cpu', size=(8, 9))"
    assert set(_assumed(device)) >= {"aten::_local_scalar_dense", "aten::index.Tensor", "Tensor.numpy", "Tensor.tolist"}


def test_a_tensor_with_data_that_is_written_keeps_its_own(device: VirtualDevice) -> None:
    real = torch.ones(3)
    real.copy_(torch.randn(65)[:3])
    assert real.tolist() == [1.0, 1.0, 1.0]
    assert _assumed(device) == {"aten::copy_": elsewhere.WRITTEN_ASSUMPTION}


def test_a_model_is_made_moved_trained_and_moved_back(device: VirtualDevice) -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 4))
    parameters = list(model.parameters())
    assert [_has_data(parameter) for parameter in parameters] == [False, True, True, True, False, True]
    optimizer = torch.optim.AdamW(model.parameters())
    other = copy.deepcopy(model).half()
    assert other[0].weight.dtype is torch.half and isinstance(other[0].weight, nn.Parameter)
    model.to("mps")
    assert all(new is old and new.is_mps for new, old in zip(model.parameters(), parameters, strict=True))
    model(torch.randn(8, 16).to("mps")).sum().backward()
    optimizer.step()
    assert all(parameter.grad is not None for parameter in parameters)
    model.cpu()
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}
    model(torch.randn(8, 16)).sum().backward()
    assert not _has_data(model[0].weight)


def test_data_is_replaced(device: VirtualDevice) -> None:
    """As ``Module.to`` does up to some release, and programs by hand: C++ knows the new device."""
    layer = nn.Linear(16, 32)
    parameter, bias = layer.weight, layer.bias
    for one in (parameter, bias):
        one.data = one.data.to("mps")
    assert layer.weight is parameter and isinstance(parameter, nn.Parameter) and parameter.is_mps
    layer(torch.randn(8, 16, device="mps")).sum().backward()
    assert parameter.grad is not None and parameter.grad.shape == (32, 16)
    parameter.data = parameter.data.cpu()
    assert isinstance(parameter, nn.Parameter) and parameter.requires_grad and not _has_data(parameter)
    (parameter * 2).sum().backward()


def test_what_is_saved_is_loaded(device: VirtualDevice) -> None:
    model, file = nn.Linear(16, 32), io.BytesIO()
    for state in (model.state_dict(), model.to("mps").state_dict()):
        torch.save(state, file)
        file.seek(0)
        loaded = torch.load(file, map_location="cpu", weights_only=True)
        assert type(loaded["weight"]) is torch.Tensor and loaded["weight"].shape == (32, 16)
        model.load_state_dict(loaded)
        assert safetensors.load(safetensors.save(state))["weight"].shape == (32, 16)
        file = io.BytesIO()
    parameter = pickle.loads(pickle.dumps(nn.Parameter(torch.randn(65))))
    assert isinstance(parameter, nn.Parameter) and parameter.requires_grad


def test_batches_of_unknown_data(device: VirtualDevice) -> None:
    data = TensorDataset(torch.randn(40, 9), torch.randint(0, 3, (40,)))
    for x, y in DataLoader(data, batch_size=20, shuffle=True):
        assert x.to("mps").shape == (20, 9) and _has_data(y)


def test_everything_is_put_back() -> None:
    before = dict(vars(FakeTensor))
    with VirtualDevice(load_table("2.13.0"), data_on_cpu=False):
        assert not _has_data(torch.empty(2**21))
    assert dict(vars(FakeTensor)) == before
    assert _has_data(torch.empty(2**21))
