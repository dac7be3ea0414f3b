"""Training through operators that are registered to run on the CPU: what is recorded of their derivatives."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from expectations import called
from torch.utils.checkpoint import checkpoint

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table

SVD = "fallback:aten::linalg_svd"


@pytest.fixture
def weight(device: VirtualDevice) -> Any:
    """A parameter (5, 5) whose values are not known."""
    return device.move(torch.nn.Parameter(torch.rand(5, 5)))


def test_the_derivative_is_a_call_with_the_copies_of_the_gradients(device: VirtualDevice, weight: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with device.recording("forward"):
            values = torch.linalg.svd(weight * 2)[1]
        with device.recording("backward"):
            values.sum().backward()
    assert weight.grad.shape == (5, 5) and weight.grad.device.type == "mps"
    assert called(device.recorder, "forward")[SVD] == called(device.recorder, "backward")[SVD] == 1
    forward, backward = (r for r in device.recorder.calls() if r.operator == "aten::linalg_svd")
    assert forward.judgement == backward.judgement and forward.origin == backward.origin
    assert [spec.shape for spec in backward.inputs] == [(5,)]  # of the singular values, to the CPU
    assert [spec.shape for spec in backward.outputs] == [(5, 5)]  # of the matrix, from there


def test_what_the_derivative_calls_on_the_cpu_is_not_a_call_of_mps(device: VirtualDevice, weight: Any) -> None:
    loss = torch.linalg.svd(weight)[1].sum()
    with device.recording("backward"):
        loss.backward()
    assert "native:aten::mm" not in called(device.recorder, "backward")
    assert not list(device.recorder.not_judged()) and not list(device.recorder.assumptions())


def test_each_backward_pass_counts(device: VirtualDevice, weight: Any) -> None:
    with device.recording("forward"):
        first, second = (torch.linalg.svd(weight)[1].sum() for _ in range(2))
    with device.recording("backward"):
        first.backward(retain_graph=True)
        first.backward()
        second.backward()
    assert called(device.recorder, "backward")[SVD] == 3


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_runs_it_again(device: VirtualDevice, weight: Any, reentrant: bool) -> None:
    with device.recording("forward"):
        loss = checkpoint(lambda x: torch.linalg.svd(x)[1].sum(), weight, use_reentrant=reentrant)
    with device.recording("backward"):
        loss.backward()
    assert called(device.recorder, "forward")[SVD] == 1
    assert called(device.recorder, "backward")[SVD] == 2


def test_second_derivatives_are_there(device: VirtualDevice, weight: Any) -> None:
    with device.recording("forward"):
        values = torch.linalg.svd(weight)[1]
        (gradient,) = torch.autograd.grad(values.pow(3).sum(), weight, create_graph=True)
    with device.recording("backward"):
        gradient.pow(2).sum().backward()
    assert weight.grad.shape == (5, 5)
    assert called(device.recorder, "forward")[SVD] == 2


def test_without_a_gradient_it_is_one_call(device: VirtualDevice, weight: Any) -> None:
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode, device.recording(type(mode).__name__):
            torch.linalg.svd(weight)
        assert called(device.recorder, type(mode).__name__) == {SVD: 1}


def test_known_values_are_computed(device: VirtualDevice) -> None:
    x = torch.tensor([[3.0, 0.0], [0.0, 2.0]], device="mps", requires_grad=True)
    values = torch.linalg.svd(x)[1]
    values.sum().backward()
    assert values.tolist() == [3.0, 2.0]
    assert x.grad is not None and x.grad.abs().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_dtype_that_the_cpu_has_no_code_for_keeps_its_gradient(device: VirtualDevice) -> None:
    x = torch.ones(2, 2, dtype=torch.float16, device="mps", requires_grad=True)
    torch.linalg.svd(x)[1].sum().backward()
    assert x.grad is not None and x.grad.dtype is torch.float16


def test_an_out_argument_is_refused_as_everywhere(device: VirtualDevice, weight: Any) -> None:
    outputs = tuple(torch.empty(0, device="mps") for _ in range(3))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.linalg.svd(weight, out=outputs)


@pytest.mark.parametrize(
    ("release", "shape", "operator", "program"),
    [
        ("1.13.1", (3, 4), "repeat_interleave.self_int", lambda x: x.repeat_interleave(2, dim=0)),
        (
            "2.4.1",
            (1, 1, 2, 2, 2),
            "upsample_nearest3d.vec",
            lambda x: torch.nn.functional.interpolate(x, scale_factor=2),
        ),
    ],
)
def test_those_of_older_releases(release: str, shape: tuple[int, ...], operator: str, program: Any) -> None:
    with VirtualDevice(load_table(release)) as device:
        x = device.move(torch.nn.Parameter(torch.rand(shape)))
        made = program(x)
        with device.recording("backward"):
            made.sum().backward()
    assert x.grad.shape == shape
    assert called(device.recorder, "backward")[f"fallback:aten::{operator}"] == 1


def test_a_kernel_without_a_derivative_ends_the_gradient() -> None:
    with VirtualDevice(load_table("2.9.1")) as device, warnings.catch_warnings():
        warnings.simplefilter("error")
        x = device.move(torch.nn.Parameter(torch.rand(3, 3)))
        with device.recording("forward"):
            factors = torch.linalg.lu_factor(x * 2)
        assert factors[0].requires_grad and not factors[1].requires_grad
        with device.recording("backward"):
            factors[0].sum().backward()
    assert x.grad is None and set(device.recorder.gradients_end) == {"aten::linalg_lu_factor"}
    assert called(device.recorder, "forward")["native:aten::linalg_lu_factor"] == 1


def test_prelu_had_a_derivative_of_its_own_in_1_13() -> None:
    with VirtualDevice(load_table("1.13.1")) as device:
        model = device.move(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.PReLU(2)))
        with device.recording("forward"):
            loss = model(torch.rand(3, 2, device="mps")).sum()
        with device.recording("backward"):
            loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert called(device.recorder, "forward")["native:aten::prelu"] == 1
    assert called(device.recorder, "backward")["native:aten::prelu_backward"] == 1
