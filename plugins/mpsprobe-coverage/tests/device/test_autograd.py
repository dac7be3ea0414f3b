"""PyTorch's own autograd runs on virtual tensors: gradients are there and have the right shapes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from expectations import called, in_backward
from torch.utils.checkpoint import checkpoint

from mpsprobe_coverage.device import VirtualDevice


def _mlp() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))


def test_gradients_add_up_and_are_forgotten(device: VirtualDevice) -> None:
    model = device.move(torch.nn.Linear(4, 2))
    in_backward(device, model(torch.rand(3, 4, device="mps")).sum())
    calls = in_backward(device, model(torch.rand(3, 4, device="mps")).sum())
    # The second gradients of weight and bias are added to the first.
    assert calls["native:aten::add.Tensor"] == 2
    torch.optim.SGD(model.parameters()).zero_grad()
    assert model.weight.grad is None


# Without reentrance the second run stops as soon as everything saved is there again: before the last linear runs.
@pytest.mark.parametrize(("reentrant", "again"), [(False, 1), (True, 2)])
def test_checkpointed_parts_run_twice(device: VirtualDevice, reentrant: bool, again: int) -> None:
    model = device.move(_mlp())
    x = torch.rand(3, 4, device="mps", requires_grad=True)
    with device.recording("forward"):
        loss = checkpoint(model, x, use_reentrant=reentrant).sum()
    forward, backward = called(device.recorder, "forward"), in_backward(device, loss)
    assert forward["native:aten::linear"] == 2
    assert (backward["native:aten::linear"], backward["native:aten::linear_backward"]) == (again, 2)
    assert x.grad is not None and x.grad.shape == x.shape


def test_gradients_of_gradients_of_a_convolution(device: VirtualDevice) -> None:
    x = torch.rand(1, 2, 5, 5, device="mps", requires_grad=True)
    w = torch.rand(3, 2, 3, 3, device="mps", requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.nn.functional.conv2d(x, w).sum(), x, create_graph=True)
    # _convolution_double_backward convolves again, on MPS with the operator of MPS.
    assert in_backward(device, gradient.pow(2).sum())["native:aten::_mps_convolution"] > 0
    assert w.grad is not None and w.grad.shape == w.shape


def test_no_grad_and_inference_mode(device: VirtualDevice) -> None:
    model, lstm = device.move(_mlp()), device.move(torch.nn.LSTM(4, 5))
    x, q = torch.rand(3, 4, device="mps"), torch.rand(1, 2, 3, 4, device="mps")
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode, device.recording(type(mode).__name__):
            output = model(x)
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
            lstm(torch.rand(2, 3, 4, device="mps"))
        assert not output.requires_grad and output.grad_fn is None
    plain, inference = (called(device.recorder, phase) for phase in ("no_grad", "inference_mode"))
    assert plain == inference
    expected = {"linear": 2, "_scaled_dot_product_attention_math_for_mps": 1, "_lstm_mps": 1}
    assert {name: plain[f"native:aten::{name}"] for name in expected} == expected


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * 3 * x.square()


def test_functions_of_the_user(device: VirtualDevice) -> None:
    x = torch.tensor([1.0, 2.0], device="mps", requires_grad=True)
    with device.recording("forward"):
        y = _Cube.apply(x)
    assert called(device.recorder, "forward") == {"native:aten::mul.Tensor": 2}
    assert in_backward(device, y, gradient=torch.ones(2, device="mps"))["native:aten::mul.Tensor"] == 2
    assert x.grad is not None and x.grad.tolist() == [3.0, 12.0]


def test_hooks_of_the_user_see_virtual_gradients(device: VirtualDevice) -> None:
    seen: list[str] = []
    model = device.move(torch.nn.Linear(4, 2))
    model.weight.register_hook(lambda grad: seen.append(grad.device.type))
    model.register_full_backward_hook(lambda module, given, made: seen.append(made[0].device.type))
    model(torch.rand(3, 4, device="mps", requires_grad=True)).sum().backward()
    assert seen == ["mps", "mps"]
