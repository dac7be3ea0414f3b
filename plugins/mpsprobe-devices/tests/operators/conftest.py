"""A small model with everything that matters here: shared and nested modules, a view, training with an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import backend_registration

from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_devices.cpu import CpuDevice
from mpsprobe_devices.operators.probe import OperatorsProbe
from mpsprobe_devices.torch_device import TorchSteps
from mpsprobe_devkit.testing import TinyWorkload

# Its device is written in Python, which torch 2.6 cannot register.
if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
    collect_ignore = ["test_other_device.py"]


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU())
        self.norm = torch.nn.LayerNorm(32)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.norm(self.inner(inputs).view(-1, 32))


class Tiny(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.head = torch.nn.Linear(32, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.block(inputs)))


class Workload(TinyWorkload):
    """Builds ``model``; batches of 16."""

    def __init__(self, model: Callable[[], torch.nn.Module] = Tiny) -> None:
        super().__init__()
        self._model = model

    def build(self, options: RunOptions) -> TorchRun:
        """With the same weights each time."""
        torch.manual_seed(0)
        return TorchRun(self._model(), (torch.rand(16, 32),), loss=lambda out: out.float().pow(2).mean(), batch_size=16)


@pytest.fixture(params=[False, True], ids=["profiler", "slow"])
def probe(request: pytest.FixtureRequest) -> OperatorsProbe:
    return OperatorsProbe(slow=request.param)


@pytest.fixture
def open_steps() -> Callable[..., TorchSteps]:
    """Opens steps of the small model on the CPU, warm."""

    def opened(phase: str = "training", model: Callable[[], torch.nn.Module] = Tiny, **more: Any) -> TorchSteps:
        steps = CpuDevice().open(Workload(model), RunOptions(phase=phase, **more))
        steps.step()
        return steps

    return opened


@pytest.fixture
def measure() -> Callable[..., dict[str, Any]]:
    """Measures as the session does it."""

    def measured(probe: OperatorsProbe, steps: Any, count: int = 2) -> dict[str, Any]:
        probe.start(CpuDevice(), steps)
        try:
            for _ in range(count):
                steps.step()
                probe.sample()
        finally:
            found = dict(probe.stop())
        return found

    return measured
