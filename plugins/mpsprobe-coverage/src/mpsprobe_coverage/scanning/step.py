"""One step of a workload, as the Python code of the target release takes it, whichever torch traces.

Facts, from transformers' ``training_args.py`` and torch's ``optim``: AdamW is fused from torch 2.8 on
(``adamw_torch_fused``), plain before.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.amp.grad_scaler import OptState

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.stepping import ADAMW, TorchStep, parameter_groups
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.reporting.memory import label_inputs, label_outputs, labelling
from mpsprobe_coverage.scanning.generation import DECODE, Generation

FUSED_BY_DEFAULT_SINCE = "2.8"
SCALED_IN_FLOAT32_SINCE = "2.8"


def run_step(run: TorchRun, options: RunOptions, device: VirtualDevice) -> list[str]:
    """Run ``run`` once on ``device``, which is open and holds the model, recording by phase.

    Returns what there is to say about loss and gradients, or about a generation that ended early. Whatever the model
    raises is raised; what was recorded before stays recorded.
    """
    table = device.table
    if options.autocast and table.autocast_key not in table.keys:
        key, label, family = table.autocast_key, table.backend.label, table.family
        since = next((release for release in family.releases if key in family.load(release).keys), None)
        if since is None:
            raise UsageError(f"the kernel table of {label} has no operator under {key}", "Leave --autocast out.")
        raise RuntimeError(f"torch {table.release} has no autocast on {label}: it came with {since}")
    moved = replace(run, args=device.move(run.args), kwargs=device.move(dict(run.kwargs)))
    label_inputs(moved.args, moved.kwargs)
    step = ReleaseStep(moved, options, table)
    if options.phase != "generate":
        step.take(partial(labelling, device, step))
        return step.notes or []
    if run.call is None:
        raise WorkloadError(
            f"the workload does not say how {type(run.model).__name__} generates",
            "Return a TorchRun with call=lambda model, args, kwargs: model.generate(**kwargs, max_new_tokens=8), or "
            "leave out --phase generate.",
        )
    generation = Generation(device)
    with generation.recording():
        step.infer()
    ended = options.new_tokens > 1 and DECODE not in generation.seen
    return ["generate() called the model once: nothing was decoded"] if ended else []


class ReleaseStep(TorchStep):
    """The step where it depends on the release of ``table``."""

    def __init__(self, run: TorchRun, options: RunOptions, table: KernelTable) -> None:
        adamw = partial(make_adamw, table=table)
        foreach = True if "foreach" in table.family.optimizer_forms(table) else None
        super().__init__(run, options, table.backend.device, adamw=adamw, foreach=foreach)
        # GradScaler went through float64 on every device before 2.8.0 (`torch/amp/grad_scaler.py`).
        self._scale_is_double = not table.at_least(SCALED_IN_FLOAT32_SINCE)

    def forward(self) -> Any:
        output = super().forward()
        if self.options.phase == "training":
            label_outputs(output)
        return output

    def unscale(self) -> None:
        if self.scaler is None:
            return
        scale: Any = self.scaler._scale
        inverse = scale.double().reciprocal().float() if self._scale_is_double else scale.reciprocal()
        found_inf = torch.full((), 0.0, dtype=torch.float32, device=scale.device)
        state = self.scaler._per_optimizer_states[id(self.optimizer)]
        state["found_inf_per_device"] = self.scaler._unscale_grads_(self.optimizer, inverse, found_inf, False)
        state["stage"] = OptState.UNSCALED


def make_adamw(model: torch.nn.Module, table: KernelTable) -> torch.optim.Optimizer:
    """AdamW in the form that the target release's Trainer and torch choose on the backend."""
    return torch.optim.AdamW(parameter_groups(model), **ADAMW, **adamw_form(table))


def optimizer(run: TorchRun, options: RunOptions, table: KernelTable) -> Any:
    """That of a training step; None of other steps."""
    if options.phase != "training":
        return None
    return run.optimizer(run.model) if run.optimizer else make_adamw(run.model, table)


def adamw_form(table: KernelTable) -> dict[str, Any]:
    """What the constructor of AdamW is called with for that."""
    forms = table.family.optimizer_forms(table)
    fused = table.at_least(FUSED_BY_DEFAULT_SINCE) and "fused" in forms
    return {"fused": True} if fused else {"foreach": "foreach" in forms}
