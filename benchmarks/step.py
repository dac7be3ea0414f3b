"""One step of bert-base, timed inside one fresh process; called by ``run.py``, prints JSON.

``python step.py PHASE first scanner|flops`` times the first step of a process, ``python step.py PHASE warm ROUNDS``
alternates between the two after a warm-up. PHASE is ``forward`` or ``backward`` (forward, loss and backward).
Both run the same workload with the same shapes on meta tensors; neither has an optimizer step. The attention mask
is left out on both sides: the model looks into it, which meta tensors without the virtual device do not allow.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import torch_releases

WARM_UP = 2


def once(run: TorchRun, args: Any, kwargs: Any, phase: str, recording: Callable[[str], Any]) -> None:
    """Forward, and for ``backward`` also the loss and its gradients."""
    with torch.no_grad() if phase == "forward" else nullcontext():
        with recording("forward"):
            output = run.call(run.model, args, kwargs) if run.call else run.model(*args, **kwargs)
            if phase == "forward":
                return
            loss = run.loss(output) if run.loss else output.loss
        with recording("backward"):
            loss.backward()


class Scanner:
    """The step as the coverage scanner runs it."""

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.table = load_table(torch_releases()[-1])
        with VirtualDevice(self.table).construction():
            self.run = build(phase)

    def whole(self) -> float:
        """Seconds to open a device, move the workload onto it, run the step and close it: one release of a scan."""
        started = time.perf_counter()
        device = VirtualDevice(self.table)
        with device:
            self._step(device)
        self._forget()
        return time.perf_counter() - started

    def repeated(self, device: VirtualDevice) -> float:
        """Seconds for the step alone, on a device that is open and has seen it before."""
        started = time.perf_counter()
        self._step(device)
        seconds = time.perf_counter() - started
        self._forget()
        return seconds

    def _step(self, device: VirtualDevice) -> None:
        device.move(self.run.model)
        once(self.run, device.move(self.run.args), device.move(dict(self.run.kwargs)), self.phase, device.recording)

    def _forget(self) -> None:
        for parameter in self.run.model.parameters():
            parameter.grad = None


class Flops:
    """The step under PyTorch's own ``FlopCounterMode``."""

    def __init__(self, phase: str) -> None:
        self.phase = phase
        with torch.device("meta"):
            self.run = build(phase)

    def whole(self) -> float:
        """Seconds to make the mode and run the step under it."""
        started = time.perf_counter()
        with FlopCounterMode(display=False):
            once(self.run, self.run.args, self.run.kwargs, self.phase, lambda phase: nullcontext())
        seconds = time.perf_counter() - started
        for parameter in self.run.model.parameters():
            parameter.grad = None
        return seconds


def build(phase: str) -> TorchRun:
    """bert-base with its own sizes and no attention mask, on the default device."""
    options = RunOptions(phase="inference" if phase == "forward" else "training")
    run = get_registry().workload("bert-base").build(options)
    assert isinstance(run, TorchRun)
    run.kwargs = {name: value for name, value in run.kwargs.items() if name != "attention_mask"}
    return run


def warm(phase: str, rounds: int) -> dict[str, list[float]]:
    """Alternating rounds in one process."""
    scanner, flops = Scanner(phase), Flops(phase)
    found: dict[str, list[float]] = {"each": [], "repeated": [], "flops": []}
    for index in range(-WARM_UP, rounds):
        one = {"each": scanner.whole(), "flops": flops.whole()}
        if index >= 0:
            for name, seconds in one.items():
                found[name].append(seconds)
    device = VirtualDevice(scanner.table)
    with device:
        for _ in range(WARM_UP):
            scanner.repeated(device)
        found["repeated"] = [scanner.repeated(device) for _ in range(rounds)]
    return found


def main() -> None:
    phase, mode, what = sys.argv[1:]
    if mode == "warm":
        result: Any = warm(phase, int(what))
    else:
        result = {"first": [(Scanner if what == "scanner" else Flops)(phase).whole()]}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
