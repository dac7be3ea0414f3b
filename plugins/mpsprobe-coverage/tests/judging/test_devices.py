"""Tensors on the CPU together with tensors of the device: refused where a kernel wants them there, with their lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.scanner.findings import findings

ON_CPU = torch.tensor([1, 0, 2])


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        (lambda x: x + torch.ones(3), "other"),
        (lambda x: torch.ones(3) - x, "self"),
        (lambda x: torch.ones(2, 3) @ x.view(3, 1), "self"),
        (lambda x: torch.cat([x, torch.ones(3)]), "tensors"),
        (lambda x: x.index_select(0, ON_CPU), "index"),
        (lambda x: x.gather(0, ON_CPU), "index"),
        (lambda x: torch.where(torch.ones(3) > 0, x, 0.0), "condition"),
        (lambda x: torch.nn.functional.embedding(ON_CPU, x.view(3, 1)), "index"),
        (lambda x: torch.arange(3.0)[x.long()], "self"),
        (lambda x: x.index_put_((ON_CPU,), torch.ones(3)), "values"),
        (lambda x: torch.nn.functional.layer_norm(x, (3,), torch.ones(3)), "weight"),
        # A number on the CPU, indices and masks on the CPU, and copies are taken as they are.
        (lambda x: x + torch.tensor(1.0), None),
        (lambda x: torch.where(x > 0, x, torch.tensor(0.0)), None),
        (lambda x: x[ON_CPU], None),
        (lambda x: x.index_put_((ON_CPU,), torch.tensor(1.0)), None),
        (lambda x: x.masked_select(ON_CPU > 0), None),
        (lambda x: x.copy_(torch.ones(3)), None),
        (lambda x: torch.ones(3).copy_(x), None),
        (lambda x: torch.ones(3) + torch.ones(3), None),
    ],
)
def test_an_argument_on_the_cpu(device: VirtualDevice, call: Callable[[Any], Any], refused: str | None) -> None:
    x = torch.ones(3, device="mps")
    with device.recording("forward"):
        call(x)
    reasons = [record.judgement.reason for record in device.recorder.calls() if record.judgement.source == "device"]
    assert reasons == ([] if refused is None else [f"'{refused}' is on the CPU, and other tensors are on MPS"])


def test_a_fallback_takes_tensors_from_wherever_they_are(device: VirtualDevice) -> None:
    """``cpu_fallback`` copies what is not on the CPU; without it, it is the missing kernel that raises."""
    with device.recording("forward"):
        torch.take(torch.ones(3, device="mps"), torch.tensor([0, 2]))
    verdicts = {record.operator: record.judgement.verdict for record in device.recorder.calls()}
    assert verdicts["aten::take"] == "missing"


class _KeepsTensors(torch.nn.Module):
    """Buffers move with a module; other tensors do not, unless they were made on the device."""

    def __init__(self, where: str | None) -> None:
        super().__init__()
        self.register_buffer("shift", torch.ones(3))
        self.scale = torch.randn(3, device=where) * 2

    def forward(self, tensor: Any) -> Any:
        return tensor * self.scale + self.shift


@pytest.mark.parametrize("where", [None, "cpu", "mps"])
def test_a_tensor_that_a_module_keeps_stays_where_it_was_made(where: str | None) -> None:
    device = VirtualDevice(load_table("2.13.0"))
    with device.construction():
        model = _KeepsTensors(where)
    with device:
        device.move(model)
        x = device.move(torch.ones(3))
        with torch.no_grad(), device.recording("forward"):
            model(x)
    made = {finding.operator: finding for finding in findings(device.recorder, device.table)}
    assert made["aten::add.Tensor"].verdict == "native"
    product = made["aten::mul.Tensor"]
    if where == "mps":
        assert product.verdict == "native"
        return
    line = _KeepsTensors.__init__.__code__.co_firstlineno + 3
    assert product.verdict == "unsupported" and product.reason is not None
    assert product.reason.endswith(f"test_devices.py:{line}")
    assert product.advice is not None and product.advice.startswith('Make it with device="mps"')


def test_each_tensor_is_named_by_the_line_that_made_it(device: VirtualDevice) -> None:
    x = torch.ones(3, device="mps")
    with device.recording("forward"):
        for other in (torch.ones(3), torch.zeros(3)):
            x + other
        first, second = torch.ones(3), torch.ones(3)  # one line
        x + first, x + second
        third = torch.ones(3)
        x + third
    lines = {finding.reason for finding in findings(device.recorder, device.table) if finding.source == "device"}
    assert len(lines) == 3


def test_a_generator_of_the_cpu_is_refused_by_kernels_of_the_device(device: VirtualDevice) -> None:
    with device.recording("forward"):
        for generator in (torch.Generator(), torch.Generator("mps"), None):
            torch.ones(3, device="mps").normal_(generator=generator)
        torch.randn(3, generator=torch.Generator()).to("mps")  # drawn on the CPU
    refused = [r.judgement.reason for r in device.recorder.calls() if r.judgement.source == "device"]
    assert refused == ["the random generator is on the CPU, and what it draws on MPS"]
