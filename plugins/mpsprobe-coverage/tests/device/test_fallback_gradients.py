"""Training through operators that are registered to run on the CPU: what is recorded of their derivatives."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from expectations import called, in_backward
from torch.nn.functional import interpolate
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
        calls = in_backward(device, values.sum())
    assert weight.grad.shape == (5, 5) and weight.grad.device.type == "mps"
    assert called(device.recorder, "forward")[SVD] == calls[SVD] == 1
    # What it calls on the CPU is no call of MPS.
    assert "native:aten::mm" not in calls
    assert not list(device.recorder.not_judged()) and not list(device.recorder.assumptions())
    forward, backward = (r for r in device.recorder.calls() if r.operator == "aten::linalg_svd")
    assert forward.judgement == backward.judgement and forward.origin == backward.origin
    assert [spec.shape for spec in backward.inputs] == [(5,)]  # of the singular values, to the CPU
    assert [spec.shape for spec in backward.outputs] == [(5, 5)]  # of the matrix, from there


def test_each_backward_pass_counts(device: VirtualDevice, weight: Any) -> None:
    first, second = (torch.linalg.svd(weight)[1].sum() for _ in range(2))
    assert in_backward(device, first, retain_graph=True)[SVD] == 1
    assert in_backward(device, first)[SVD] == 2
    assert in_backward(device, second)[SVD] == 3


def test_a_checkpoint_runs_it_again(device: VirtualDevice, weight: Any) -> None:
    for number, reentrant in enumerate((False, True), 1):
        with device.recording("forward"):
            loss = checkpoint(lambda x: torch.linalg.svd(x)[1].sum(), weight, use_reentrant=reentrant)
        assert in_backward(device, loss)[SVD] == 2 * called(device.recorder, "forward")[SVD] == 2 * number


def test_second_derivatives_are_there(device: VirtualDevice, weight: Any) -> None:
    with device.recording("forward"):
        values = torch.linalg.svd(weight)[1]
        (gradient,) = torch.autograd.grad(values.pow(3).sum(), weight, create_graph=True)
    in_backward(device, gradient.pow(2).sum())
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
        ("2.4.1", (1, 1, 2, 2, 2), "upsample_nearest3d.vec", lambda x: interpolate(x, scale_factor=2)),
    ],
)
def test_those_of_older_releases(release: str, shape: tuple[int, ...], operator: str, program: Any) -> None:
    with VirtualDevice(load_table(release)) as device:
        x = device.move(torch.nn.Parameter(torch.rand(shape)))
        calls = in_backward(device, program(x).sum())
    assert x.grad.shape == shape and calls[f"fallback:aten::{operator}"] == 1


def test_a_kernel_without_a_derivative_ends_the_gradient() -> None:
    with VirtualDevice(load_table("2.9.1")) as device, warnings.catch_warnings():
        warnings.simplefilter("error")
        x = device.move(torch.nn.Parameter(torch.rand(3, 3)))
        with device.recording("forward"):
            factors = torch.linalg.lu_factor(x * 2)
        assert factors[0].requires_grad and not factors[1].requires_grad
        in_backward(device, factors[0].sum())
    assert x.grad is None and set(device.recorder.gradients_end) == {"aten::linalg_lu_factor"}
    assert called(device.recorder, "forward")["native:aten::linalg_lu_factor"] == 1
