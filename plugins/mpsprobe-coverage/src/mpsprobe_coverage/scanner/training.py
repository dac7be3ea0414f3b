"""The part of a training step after the gradients, as Hugging Face's Trainer does it.

Facts, from transformers' ``trainer.py`` and ``training_args.py``: AdamW (``mpsprobe.stepping``), fused from torch 2.8
on (``adamw_torch_fused``), plain before; gradients clipped to norm 1.0; under float16 autocast a ``GradScaler``, as
accelerate makes it.
"""

from __future__ import annotations

from typing import Any

import torch
from packaging.version import Version
from torch.amp.grad_scaler import OptState
from torch.utils import _foreach_utils

from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.stepping import ADAMW, parameter_groups
from mpsprobe_coverage.kernels.table import KernelTable

FUSED_BY_DEFAULT_SINCE = Version("2.8")


class TrainerStep:
    """Scales losses and updates parameters for one step.

    Args:
        table: of the target release: which form of the optimizer its Python code takes on MPS.
    """

    def __init__(self, run: TorchRun, options: RunOptions, table: KernelTable) -> None:
        self.options = options
        self.model = run.model
        self.parameters = [p for p in run.model.parameters() if p.requires_grad]
        self.optimizer = run.optimizer(run.model) if run.optimizer else make_adamw(run.model, table)
        self.foreach = _foreach(table)
        # GradScaler went through float64 on every device before 2.8.0 (`torch/amp/grad_scaler.py`).
        self._scale_is_double = Version(table.release) < Version("2.8")
        self.scaler = torch.amp.GradScaler(table.backend.device) if options.autocast == "float16" else None

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss to call ``backward`` on."""
        if self.options.grad_accum > 1:
            loss = loss / self.options.grad_accum
        return self.scaler.scale(loss) if self.scaler is not None else loss

    def update(self) -> None:
        """Unscale, clip, step, forget the gradients."""
        if self.scaler is not None:
            self._unscale(self.scaler)
        if self.options.clip_norm > 0:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.options.clip_norm, foreach=self.foreach or None)
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.optimizer.zero_grad()

    def _unscale(self, scaler: torch.amp.GradScaler) -> None:
        """``GradScaler.unscale_`` as the target release has it, whichever torch traces."""
        scale: Any = scaler._scale
        inverse = scale.double().reciprocal().float() if self._scale_is_double else scale.reciprocal()
        found = torch.full((), 0.0, dtype=torch.float32, device=scale.device)
        state = scaler._per_optimizer_states[id(self.optimizer)]
        state["found_inf_per_device"] = scaler._unscale_grads_(self.optimizer, inverse, found, False)
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
