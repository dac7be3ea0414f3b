"""A workload that PyTorch's own refusals end is judged past them; one that catches them goes its own way."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from made_workloads import Made, calling, calls, finding, scan, scan_many
from torch import nn

from mpsprobe.protocols import TorchRun
from mpsprobe_coverage.knowledge.judging.judgement import EVERYWHERE

# By operators, by C++ that is made of operators, and by Python.
REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "an operator": (lambda y: y.long().mean(), "mean.dim"),
    "C++ above operators": (lambda y: torch.fft.fft(y.bfloat16()), "fft_fft"),
    "C++ that picks code by dtype": (lambda y: torch.isinf(y.to(torch.float8_e4m3fn)), "isinf"),
    "a factorisation": (lambda y: torch.linalg.ldl_factor((y @ y.T).long()), "linalg_ldl_factor"),
    "a function in Python": (lambda y: nn.functional.kl_div(y.long(), y.long(), reduction="sum"), "kl_div"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_run_goes_on_past_a_refusal(name: str) -> None:
    refused, operator = REFUSED[name]

    def call(y: torch.Tensor) -> torch.Tensor:
        refused(y)
        return y.tanh()

    report = scan(calling(call), "2.15.0")
    assert report.failure is None
    assert calls(report, "forward")["tanh"] == 1
    found = finding(report, operator)
    assert (found.verdict, found.evidence) == ("unsupported", EVERYWHERE)
    assert found.call_sites[0].rpartition(":")[0].endswith("test_passing_over.py")
    assert found.advice is not None and "another dtype" in found.advice


def test_several_refusals_are_several_findings() -> None:
    def call(y: torch.Tensor) -> torch.Tensor:
        return y.bool().mean() + torch.fft.fft(y.bfloat16()).abs().sum() + (y.bool() - y.bool()).sum()

    report = scan_many(calling(call), ["2.4.1", "2.13.0"])
    assert [cell.failure for cell in report.releases] == [None, None]
    for cell in report.releases:
        assert {"aten::mean.dim", "aten::fft_fft", "aten::sub.Tensor"} <= cell.findings.keys()


def test_a_program_that_catches_a_refusal_goes_on_as_on_a_mac() -> None:
    def call(y: torch.Tensor) -> torch.Tensor:
        try:
            return y.bool().mean().sin()
        except RuntimeError:
            return y.mean().cos()

    seen = calls(scan(calling(call), "2.13.0"), "forward")
    assert "cos" in seen and "sin" not in seen


def test_training_goes_on_past_a_refusal() -> None:
    def loss(y: torch.Tensor) -> torch.Tensor:
        return y.sum() + (y > 0).mean()

    report = scan(calling(loss, loss=lambda output: output), "2.13.0", phase="training")
    assert report.failure is None and finding(report, "mean.dim").verdict == "unsupported"
    assert "_fused_adamw_" in calls(report, "optimizer")


def test_a_mistake_of_the_program_ends_the_run_as_before() -> None:
    for call in (lambda y: y @ torch.ones(7, 7, device=y.device), lambda y: torch.bmm(y.half()[None], y.T[None])):
        report = scan(calling(call), "2.13.0")
        assert report.failure is not None and report.failure.error == "RuntimeError"
        assert {one.verdict for one in report.operators} == {"native"}
        assert calls(report, "forward")["linear"] == 1


def test_a_nested_tensor_of_strided_layout_is_refused_where_it_is_made() -> None:
    def call(y: torch.Tensor) -> torch.Tensor:
        torch._nested_tensor_from_tensor_list([y, y[:1]])
        return y.tanh()

    report = scan(calling(call), "2.13.0")
    made = finding(report, "_nested_tensor_from_tensor_list")
    assert made.verdict == "unsupported" and made.reason is not None and made.reason.endswith("but got mps")
    assert report.failure is None and "tanh" in calls(report, "forward")


def test_orthogonal_weights() -> None:
    for way, sizes in product(("matrix_exp", "cayley", "householder"), ((4, 4), (4, 6))):

        def make(way: str = way, sizes: tuple[int, int] = sizes) -> TorchRun:
            layer = nn.utils.parametrizations.orthogonal(nn.Linear(*sizes), orthogonal_map=way)
            return TorchRun(layer, (torch.ones(2, sizes[0]),), loss=torch.sum)

        report = scan(Made(make), "2.13.0", phase="training")
        assert report.failure is None, (way, sizes)
        assert "linear" in calls(report, "forward") and "linear_backward" in calls(report, "backward")
