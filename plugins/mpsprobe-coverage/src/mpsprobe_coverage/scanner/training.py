"""The part of a training step after the gradients, as Hugging Face's Trainer does it.

Facts, from transformers' ``trainer.py`` and ``training_args.py``: AdamW with lr 5e-5, betas 0.9/0.999, eps 1e-8
and no weight decay; fused from torch 2.8 on (``adamw_torch_fused``), plain before; parameters in two
groups, those of normalisation layers and biases apart; gradients clipped to norm 1.0; under float16
autocast a ``GradScaler``, as accelerate makes it.
"""

from __future__ import annotations

from typing import Any

import torch
from packaging.version import Version

from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_coverage.kernels.table import KernelTable

FUSED_BY_DEFAULT_SINCE = Version("2.8")
_NORMALISATION = ("LayerNorm", "RMSNorm", "BatchNorm", "GroupNorm")


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
        self.foreach = "foreach_mps" in table.markers
        # GradScaler went through float64 on every device before 2.8.0 (`torch/amp/grad_scaler.py`).
        self._scale_is_double = Version(table.release) < Version("2.8")
        self.scaler = torch.amp.GradScaler("mps") if options.autocast == "float16" else None

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss to call ``backward`` on."""
        if self.options.grad_accum > 1:
            loss = loss / self.options.grad_accum
        return self.scaler.scale(loss) if self.scaler is not None else loss

    def update(self) -> None:
        """Unscale, clip, step, forget the gradients."""
        if self.scaler is not None:
            if self._scale_is_double:
                self.scaler._scale.double().reciprocal().float()  # type: ignore[union-attr]
            self.scaler.unscale_(self.optimizer)
        if self.options.clip_norm > 0:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.options.clip_norm, foreach=self.foreach or None)
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.optimizer.zero_grad()


def make_adamw(model: torch.nn.Module, table: KernelTable) -> torch.optim.Optimizer:
    """AdamW in the form that the target release's Trainer and torch choose on MPS."""
    fused = Version(table.release) >= FUSED_BY_DEFAULT_SINCE and "fused_mps" in table.markers
    form: dict[str, Any] = {"fused": True} if fused else {"foreach": "foreach_mps" in table.markers}
    return torch.optim.AdamW(_groups(model), lr=5e-5, betas=(0.9, 0.999), eps=1e-8, **form)


def optimizer_name(optimizer: torch.optim.Optimizer) -> str:
    """``AdamW (fused)``."""
    forms = [form for form in ("fused", "foreach") if optimizer.defaults.get(form)]
    return type(optimizer).__name__ + (f" ({forms[0]})" if forms else "")


def _groups(model: torch.nn.Module) -> list[dict[str, Any]]:
    apart = set()
    for name, module in model.named_modules():
        normalises = any(kind in type(module).__name__ for kind in _NORMALISATION)
        for parameter_name, _ in module.named_parameters(recurse=False):
            if normalises or "bias" in parameter_name:
                apart.add(f"{name}.{parameter_name}" if name else parameter_name)
    decayed = [p for n, p in model.named_parameters() if p.requires_grad and n not in apart]
    others = [p for n, p in model.named_parameters() if p.requires_grad and n in apart]
    return [group for group in ({"params": decayed}, {"params": others, "weight_decay": 0.0}) if group["params"]]
