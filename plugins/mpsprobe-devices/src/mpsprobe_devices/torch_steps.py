"""A torch workload on a real device, step by step: inference, or forward, backward and the optimizer's update."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map

from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.stepping import TorchStep, workload_info

if TYPE_CHECKING:
    from mpsprobe_devices.torch_device import TorchDevice


def move(value: Any, device: str) -> Any:
    """``value`` with every tensor in it on ``device``."""
    return tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, value)


class TorchSteps:
    """Satisfies ``mpsprobe.protocols.Steps``.

    Args:
        compiled: run the model through ``torch.compile``.
    """

    def __init__(
        self, name: str, run: TorchRun, options: RunOptions, device: TorchDevice, *, compiled: bool = False
    ) -> None:
        self._device = device
        self._step = TorchStep(run, options, device.name)
        self.info = workload_info(name, run, options, self._step.optimizer)
        self.model: Any = run.model
        if compiled:
            run.model = torch.compile(run.model)

    def step(self) -> None:
        """One whole step; nothing is synchronised."""
        self._step.take()

    def phases(self) -> Mapping[str, int]:
        """One whole step, synchronised after each phase: ns by phase, summed over the passes that are accumulated."""
        spent: dict[str, int] = {}

        @contextmanager
        def timed(phase: str) -> Iterator[None]:
            self._device.synchronize()
            start = time.perf_counter_ns()
            yield
            self._device.synchronize()
            spent[phase] = spent.get(phase, 0) + time.perf_counter_ns() - start

        self._step.take(timed)
        return spent

    def close(self) -> None:
        """Forget model, inputs and optimizer, and give the device's memory back."""
        self._step, self.model = TorchStep(TorchRun(torch.nn.Identity()), RunOptions(), self._device.name), None
        self._device.empty_cache()
