"""Modules that get their parameters' shapes in the first forward pass."""

from __future__ import annotations

import torch
from made_workloads import Made, calls, scan, scan_many
from torch import nn

from mpsprobe.protocols import TorchRun
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table


def _model() -> nn.Module:
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(5))


def _workload() -> Made:
    return Made(lambda: TorchRun(_model(), (torch.ones(2, 3, 8, 8),), loss=torch.sum))


PARAMETERS = 3 * 4 * 9 + 4 + 2 * 4 + 4 * 6 * 6 * 5 + 5


def test_parameters_are_made_on_the_device_by_the_first_forward_pass() -> None:
    report = scan(_workload(), "2.13.0")
    assert report.failure is None
    assert (report.workload.parameters, report.summary.parameters_bytes) == (PARAMETERS, 4 * PARAMETERS)
    seen = calls(report, "forward")
    assert seen["_mps_convolution"] == seen["native_batch_norm"] == seen["linear"] == 1
    assert seen["uniform_"] == 4  # weight and bias of the convolution and of the linear layer


def test_an_optimizer_made_before_them_updates_them() -> None:
    report = scan(_workload(), "2.13.0", phase="training")
    assert report.failure is None and report.workload.parameters == PARAMETERS
    assert {"mps_convolution_backward", "native_batch_norm_backward", "linear_backward"} <= calls(
        report, "backward"
    ).keys()
    assert calls(report, "optimizer")["_fused_adamw_"] == 2


def test_each_release_sees_a_first_forward_pass() -> None:
    releases = ["2.0.0", "2.4.1", "2.13.0"]
    report = scan_many(_workload(), releases, phase="training")
    alone = [scan(_workload(), release, phase="training").summary for release in releases]
    assert [cell.summary.calls for cell in report.releases] == [summary.calls for summary in alone]
    assert {cell.summary.parameters_bytes for cell in report.releases} == {4 * PARAMETERS}


class _Half(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.LazyLinear(2), nn.LazyLinear(3, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


def test_a_lazy_module_that_is_not_called_stays_without_a_shape() -> None:
    report = scan(Made(lambda: TorchRun(_Half(), (torch.ones(2, 4),))), "2.13.0")
    assert report.failure is None and report.workload.parameters == 4 * 2 + 2
    with VirtualDevice(load_table("2.13.0")) as device:
        moved = device.move(_Half())
        weight = moved.unused.weight
        assert isinstance(weight, nn.UninitializedParameter) and weight.device.type == "mps"
        moved.unused(torch.ones(2, 7, device="mps", dtype=torch.float16))
        assert moved.unused.weight is weight and not isinstance(weight, nn.UninitializedParameter)
        assert isinstance(weight, nn.Parameter) and (tuple(weight.shape), weight.dtype) == ((3, 7), torch.float16)
