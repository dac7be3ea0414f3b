"""One step of a workload: a forward pass, or forward, loss, backward and an optimizer step."""

from __future__ import annotations

import torch

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.stepping import forward, loss_of
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.autocast import key_of
from mpsprobe_coverage.scanner.training import TrainerStep


def run_step(run: TorchRun, options: RunOptions, device: VirtualDevice) -> None:
    """Run ``run`` once on ``device``, which is open and holds the model, recording by phase.

    Raises:
        Exception: whatever the model raises; what was recorded before stays recorded.
    """
    table, on = device.table, device.table.backend.device
    if options.autocast and key_of(table) not in table.keys:
        if table.is_mps:
            raise RuntimeError(f"torch {table.release} has no autocast on MPS: it came with 2.5.0")
        raise UsageError(
            f"the kernel table of {table.backend.label} has no operator under {key_of(table)}", "Leave --autocast out."
        )
    args, kwargs = device.move(run.args), device.move(dict(run.kwargs))
    if options.phase == "inference":
        with torch.no_grad(), device.recording("forward"):
            forward(run, options, on, args, kwargs)
        return
    step = TrainerStep(run, options, device.table)
    for _ in range(options.grad_accum):
        with device.recording("forward"):
            loss = loss_of(run, forward(run, options, on, args, kwargs))
            loss = step.scaled(loss)
        with device.recording("backward"):
            loss.backward()
    with device.recording("optimizer"):
        step.update()
