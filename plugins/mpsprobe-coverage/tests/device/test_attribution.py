"""Each call belongs to the module and the line that made it; in the backward pass, to those of its forward."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.recorder import CallRecord


class Block(torch.nn.Module):
    """Two linear layers; the activation between them is the block's own call."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.gelu(self.up(x))  # the line of gelu
        return self.down(hidden)


class Model(torch.nn.Module):
    """Two blocks, and a line of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return torch.sin(x)  # the line of sin


def _line(marker: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# the line of {marker}"))


def _records(device: VirtualDevice, phase: str, operator: str) -> list[CallRecord]:
    return [r for r in device.recorder.calls() if r.phase == phase and r.operator == f"aten::{operator}"]


@pytest.fixture
def trained(device: VirtualDevice) -> VirtualDevice:
    """A device that has seen one training step of ``Model``."""
    model = device.move(Model())
    with device.recording("forward"):
        loss = model(torch.rand(2, 4, device="mps")).sum()
    with device.recording("backward"):
        loss.backward()
    with device.recording("optimizer"):
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    return device


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_modules(trained: VirtualDevice, phase: str) -> None:
    suffix = "" if phase == "forward" else "_backward"
    layers = {f"blocks.{index}.{name}" for index in range(2) for name in ("up", "down")}
    assert {r.origin.module for r in _records(trained, phase, f"linear{suffix}")} == layers
    assert {r.origin.module for r in _records(trained, phase, f"gelu{suffix}")} == {"blocks.0", "blocks.1"}
    assert {r.origin.module for r in _records(trained, phase, "sin" if phase == "forward" else "cos")} == {""}


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_lines(trained: VirtualDevice, phase: str) -> None:
    gelu = _records(trained, phase, "gelu" if phase == "forward" else "gelu_backward")
    sine = _records(trained, phase, "sin" if phase == "forward" else "cos")
    assert {(r.origin.file, r.origin.line) for r in gelu} == {(__file__, _line("gelu"))}
    assert {(r.origin.file, r.origin.line) for r in sine} == {(__file__, _line("sin"))}


def test_the_line_is_the_users_not_torchs(trained: VirtualDevice) -> None:
    files = {r.origin.file for r in trained.recorder.calls() if r.origin.file is not None}
    assert files == {__file__}


def test_the_optimizer_belongs_to_no_module(trained: VirtualDevice) -> None:
    records = [r for r in trained.recorder.calls() if r.phase == "optimizer"]
    assert records and {r.origin.module for r in records} == {None}


def test_nothing_is_recorded_outside_a_phase(device: VirtualDevice) -> None:
    torch.ones(2, device="mps") * 2
    assert not list(device.recorder.calls())


def test_calls_that_agree_are_counted_together(device: VirtualDevice) -> None:
    with device.recording("forward"):
        tensors = [torch.ones(3, device="mps") for _ in range(5)]
        for tensor in tensors:
            tensor * 2
    (record,) = _records(device, "forward", "mul.Tensor")
    assert record.calls == 5
    assert record.inputs[0].shape == (3,) and record.outputs[0].nbytes == 12


def test_a_module_used_twice_keeps_its_first_name(device: VirtualDevice) -> None:
    layer = torch.nn.Linear(2, 2)
    model = device.move(torch.nn.Sequential(layer, torch.nn.Tanh(), layer))
    with device.recording("forward"):
        model(torch.rand(1, 2, device="mps"))
    (record,) = _records(device, "forward", "linear")
    assert (record.origin.module, record.calls) == ("0", 2)


def test_where_an_exception_left_the_modules(device: VirtualDevice) -> None:
    model = device.move(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(3, 3))))
    with pytest.raises(RuntimeError), device.recording("forward"):
        model(torch.rand(1, 2, device="mps"))
    assert device.attribution.deepest_module == "1.0"
