"""One step of a workload, as the Python code of the target release takes it, whichever torch traces.

Facts, from transformers' ``training_args.py`` and torch's ``optim``: AdamW is fused from torch 2.8 on
(``adamw_torch_fused``), plain before.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from packaging.version import Version
from torch.amp.grad_scaler import OptState
from torch.utils import _foreach_utils

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.stepping import ADAMW, TorchStep, parameter_groups
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.autocast import key_of
from mpsprobe_coverage.kernels.table import KernelTable

FUSED_BY_DEFAULT_SINCE = Version("2.8")


def run_step(run: TorchRun, options: RunOptions, device: VirtualDevice) -> None:
    """Run ``run`` once on ``device``, which is open and holds the model, recording by phase.

    Raises:
        Exception: whatever the model raises; what was recorded before stays recorded.
    """
    table = device.table
    if options.autocast and key_of(table) not in table.keys:
        if table.is_mps:
            raise RuntimeError(f"torch {table.release} has no autocast on MPS: it came with 2.5.0")
        raise UsageError(
            f"the kernel table of {table.backend.label} has no operator under {key_of(table)}", "Leave --autocast out."
        )
    moved = replace(run, args=device.move(run.args), kwargs=device.move(dict(run.kwargs)))
    ReleaseStep(moved, options, table).take(device.recording)


class ReleaseStep(TorchStep):
    """The step where it depends on the release.

    Args:
        table: of the target release.
    """

    def __init__(self, run: TorchRun, options: RunOptions, table: KernelTable) -> None:
        adamw = partial(make_adamw, table=table)
        super().__init__(run, options, table.backend.device, adamw=adamw, foreach=_foreach(table) or None)
        # GradScaler went through float64 on every device before 2.8.0 (`torch/amp/grad_scaler.py`).
        self._scale_is_double = Version(table.release) < Version("2.8")

    def unscale(self) -> None:
        """``GradScaler.unscale_`` as the target release has it."""
        scale: Any = self.scaler._scale
        inverse = scale.double().reciprocal().float() if self._scale_is_double else scale.reciprocal()
        found_inf = torch.full((), 0.0, dtype=torch.float32, device=scale.device)
        state = self.scaler._per_optimizer_states[id(self.optimizer)]
        state["found_inf_per_device"] = self.scaler._unscale_grads_(self.optimizer, inverse, found_inf, False)
        state["stage"] = OptState.UNSCALED


def make_adamw(model: torch.nn.Module, table: KernelTable) -> torch.optim.Optimizer:
    """AdamW in the form that the target release's Trainer and torch choose on the backend."""
    if table.is_mps:
        can_be_fused = "fused_mps" in table.markers
    else:
        can_be_fused = table.backend.device in _foreach_utils._get_fused_kernels_supported_devices()
    fused = Version(table.release) >= FUSED_BY_DEFAULT_SINCE and can_be_fused
    form: dict[str, Any] = {"fused": True} if fused else {"foreach": _foreach(table)}
    return torch.optim.AdamW(parameter_groups(model), **ADAMW, **form)


def _foreach(table: KernelTable) -> bool:
    """Whether torch takes its ``foreach`` forms there; of MPS the table knows, of others the installed torch."""
    if table.is_mps:
        return "foreach_mps" in table.markers
    return table.backend.device in _foreach_utils._get_foreach_kernels_supported_devices()
