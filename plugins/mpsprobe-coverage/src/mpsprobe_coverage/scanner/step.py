"""One step of a workload: a forward pass, or forward, loss, backward and an optimizer step."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.autocast import KEY
from mpsprobe_coverage.scanner.training import TrainerStep


def run_step(run: TorchRun, options: RunOptions, device: VirtualDevice) -> None:
    """Run ``run`` once on ``device``, which is open and holds the model, recording by phase.

    Raises:
        Exception: whatever the model raises; what was recorded before stays recorded.
    """
    if options.autocast and KEY not in device.table.keys:
        raise RuntimeError(f"torch {device.table.release} has no autocast on MPS: it came with 2.5.0")
    args, kwargs = device.move(run.args), device.move(dict(run.kwargs))
    if options.phase == "inference":
        with torch.no_grad(), device.recording("forward"):
            _forward(run, options, args, kwargs)
        return
    step = TrainerStep(run, options, device.table)
    for _ in range(options.grad_accum):
        with device.recording("forward"):
            loss = _loss(run, _forward(run, options, args, kwargs))
            loss = step.scaled(loss)
        with device.recording("backward"):
            loss.backward()
    with device.recording("optimizer"):
        step.update()


def _forward(run: TorchRun, options: RunOptions, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    autocast: Any = nullcontext()
    if options.autocast:
        autocast = torch.autocast("mps", dtype=getattr(torch, options.autocast))
    with autocast:
        if run.call is not None:
            return run.call(run.model, args, kwargs)
        return run.model(*args, **kwargs)


def _loss(run: TorchRun, output: Any) -> torch.Tensor:
    if run.loss is not None:
        loss: Any = run.loss(output)
    elif isinstance(output, Mapping):
        loss = output.get("loss")
    else:
        loss = getattr(output, "loss", output if isinstance(output, torch.Tensor) else None)
    if not isinstance(loss, torch.Tensor):
        raise WorkloadError(
            "the model's output has no loss to train with",
            "Return a TorchRun with 'loss' set, or inputs with labels if the model takes them.",
        )
    if loss.dim():
        # What torch.nn.parallel users do with a loss for each replica or sample.
        loss = loss.mean()
    if not loss.requires_grad:
        raise WorkloadError("the loss does not depend on any parameter that requires a gradient")
    found: torch.Tensor = loss
    return found
