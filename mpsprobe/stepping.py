"""How a ``TorchRun`` is stepped, the same on every device, real or virtual.

Facts from transformers 5.23: inference is under ``torch.no_grad`` in pipelines (``pipelines/base.py``,
``get_inference_context``), in ``generate`` (``generation/utils.py``) and in Trainer (``prediction_step``). Trainer's
AdamW has lr 5e-5, betas 0.9/0.999, eps 1e-8, no weight decay, and parameters in two groups, those of normalisation
layers and biases apart; it divides the loss by the passes that it accumulates, clips gradients to norm 1.0 and then
updates. accelerate scales the loss in its ``backward``, under float16 autocast alone. torch is imported where it is
used: this module belongs to the core, which does not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun, Workload

if TYPE_CHECKING:
    from mpsprobe.schemas.run import WorkloadInfo

ADAMW: Mapping[str, Any] = {"lr": 5e-5, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
"""What ``torch.optim.AdamW`` is made with."""
_MADE_UP = "no loss was given: trained with the mean of the model's output {shape}"
_NO_GRADIENT = "{count} of {of} parameters got no gradient (usual where the loss does not use them): {names}"
_NORMALISATION = ("LayerNorm", "RMSNorm", "BatchNorm", "GroupNorm")


def built(workload: Workload, options: RunOptions) -> TorchRun:
    """What ``workload`` builds for ``options``.

    Raises:
        WorkloadError: that is no ``TorchRun``.
    """
    run = workload.build(options)
    if not isinstance(run, TorchRun):
        raise WorkloadError(f"'{workload.name}' did not build a TorchRun, but {type(run).__name__}")
    return run


def settled(run: TorchRun, options: RunOptions, device: str, place: Callable[[Any], Any]) -> TorchRun:
    """``run`` with inputs that its model takes, where they were derived: the forward pass is tried.

    Args:
        place: moves inputs to ``device``, where the model is.

    Raises:
        Exception: whatever the model raises when nothing is left to try.
    """
    while True:
        run.args, run.kwargs = place(run.args), place(dict(run.kwargs))
        if run.correct is None:
            return run
        try:
            TorchStep(run, replace(options, phase="inference"), device).infer()
            return run
        except Exception as error:
            better = run.correct(error)
            if better is None:
                raise
            run = better


class TorchStep:
    """One step of ``run``, whose model is on ``device``: inference, or forward, backward and the optimizer's update.

    Args:
        adamw: makes the optimizer where ``run`` says none; ``make_adamw`` unless given.
        foreach: as ``clip_grad_norm_`` takes it; ``None`` lets torch choose.

    ``notes`` says after the first update what there is to say about the loss and the gradients; ``None`` before.
    """

    def __init__(
        self,
        run: TorchRun,
        options: RunOptions,
        device: str,
        *,
        adamw: Callable[[Any], Any] | None = None,
        foreach: bool | None = None,
    ) -> None:
        self.run, self.options, self.device, self.foreach = run, options, device, foreach
        self.parameters = [p for p in run.model.parameters() if p.requires_grad]
        self.optimizer: Any = None
        self.scaler: Any = None
        self._loss_made_up = ""
        self.notes: list[str] | None = None
        if options.phase == "training":
            self.optimizer = (run.optimizer or adamw or make_adamw)(run.model)
            if options.autocast == "float16":
                import torch

                self.scaler = torch.amp.GradScaler(device)

    def take(self, phase: Callable[[str], AbstractContextManager[Any]] = nullcontext) -> None:
        """The whole step; ``phase(name)`` is entered around each ``forward``, ``backward`` and ``optimizer``."""
        if self.options.phase == "inference":
            with phase("forward"):
                self.infer()
            return
        for _ in range(self.options.grad_accum):
            with phase("forward"):
                loss = self.loss()
            with phase("backward"):
                (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        with phase("optimizer"):
            self.update()

    def infer(self) -> None:
        """The model's forward pass, for which no gradients are kept."""
        import torch

        with torch.no_grad():
            self.forward()

    def forward(self) -> Any:
        """What the model returns."""
        return forward(self.run, self.options, self.device, self.run.args, self.run.kwargs)

    def loss(self) -> Any:
        """The loss of a forward pass, divided by the passes that are accumulated. Raises as ``loss_of``."""
        output = self.forward()
        loss = loss_of(self.run, output)
        if self.run.loss is None and loss is not output and hasattr(output, "dim"):
            self._loss_made_up = _MADE_UP.format(shape=tuple(output.shape))
        return loss / self.options.grad_accum if self.options.grad_accum > 1 else loss

    def update(self) -> None:
        """Unscale, clip, update the parameters, forget the gradients."""
        if self.notes is None:  # once, in the first step
            self.notes = [note for note in (self._loss_made_up, without_gradient(self.run.model)) if note]
        self.unscale()
        if self.options.clip_norm > 0:
            from torch.nn.utils import clip_grad_norm_

            clip_grad_norm_(self.parameters, self.options.clip_norm, foreach=self.foreach)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad()

    def unscale(self) -> None:
        """Divide the gradients by the scale of the loss, if there is one, before they are clipped."""
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)


def forward(run: TorchRun, options: RunOptions, device: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What the model returns for ``args`` and ``kwargs``, under autocast for ``device`` if that was asked for."""
    autocast: Any = nullcontext()
    if options.autocast:
        import torch

        autocast = torch.autocast(device, dtype=getattr(torch, options.autocast))
    with autocast:
        if run.call is not None:
            return run.call(run.model, args, kwargs)
        return run.model(*args, **kwargs)


def loss_of(run: TorchRun, output: Any) -> Any:
    """The scalar to call ``backward`` on.

    Raises:
        WorkloadError: the output has no loss, or one that no parameter made.
    """
    import torch

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
        raise WorkloadError(
            "the loss does not depend on any parameter that requires a gradient",
            "Call it outside of torch.no_grad and torch.inference_mode, with a model that is not frozen.",
        )
    return loss


def parameter_groups(model: Any) -> list[dict[str, Any]]:
    """The parameters that require a gradient, for an optimizer: decayed ones, then the rest without weight decay.

    Raises:
        WorkloadError: none does.
    """
    apart = set()
    for name, module in model.named_modules():
        normalises = any(kind in type(module).__name__ for kind in _NORMALISATION)
        for parameter_name, _ in module.named_parameters(recurse=False):
            if normalises or "bias" in parameter_name:
                apart.add(f"{name}.{parameter_name}" if name else parameter_name)
    decayed = [p for n, p in model.named_parameters() if p.requires_grad and n not in apart]
    others = [p for n, p in model.named_parameters() if p.requires_grad and n in apart]
    if not decayed and not others:
        raise WorkloadError("no parameter of the model requires a gradient", "Ask about --phase inference.")
    return [group for group in ({"params": decayed}, {"params": others, "weight_decay": 0.0}) if group["params"]]


def without_gradient(model: Any) -> str:
    """After a backward pass: which parameters that require a gradient got none; empty where all got one."""
    wanting = [(name.removeprefix("_orig_mod."), p) for name, p in model.named_parameters() if p.requires_grad]
    names = [name for name, parameter in wanting if parameter.grad is None]
    first = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return _NO_GRADIENT.format(count=len(names), of=len(wanting), names=first) if names else ""


def optimizer_name(optimizer: Any) -> str:
    """``AdamW (fused)``."""
    forms = [form for form in ("fused", "foreach") if optimizer.defaults.get(form)]
    return type(optimizer).__name__ + (f" ({forms[0]})" if forms else "")


def make_adamw(model: Any) -> Any:
    """AdamW as Trainer makes it: in its fused form where torch has that for the model's device."""
    import torch

    groups = parameter_groups(model)
    try:
        return torch.optim.AdamW(groups, **ADAMW, fused=True)
    except RuntimeError:  # "`fused=True` requires all the params to be floating point Tensors of supported devices"
        return torch.optim.AdamW(groups, **ADAMW)


def workload_info(name: str, run: TorchRun, options: RunOptions, optimizer: Any) -> WorkloadInfo:
    """What a report says about ``run``; ``optimizer`` is ``None`` in inference.

    Raises:
        UsageError: adapters were asked for, and the workload has made none.
    """
    from mpsprobe.schemas.run import WorkloadInfo

    adapters = getattr(run.model, "peft_config", {})  # as peft and transformers name the adapters of a model
    if options.lora and not adapters:
        hint = "Leave it out, or return a model that peft.get_peft_model made."
        raise UsageError(f"the workload '{name}' does not take --lora", hint)
    # An uninitialised parameter of a lazy module has no size before the first forward pass.
    parameters = [p for p in run.model.parameters() if not hasattr(p, "materialize")]
    count, trained = (sum(p.numel() for p in parameters if p.requires_grad or every) for every in (True, False))
    same = {field: getattr(options, field) for field in ("phase", "dtype", "autocast", "grad_accum", "weights")}
    return WorkloadInfo(
        name=name,
        architecture=run.architecture or type(run.model).__name__,
        parameters=count,
        batch_size=run.batch_size,
        seq_len=run.seq_len,
        optimizer=None if optimizer is None else optimizer_name(optimizer),
        trained=None if optimizer is None or trained == count else trained,
        lora_rank=max((adapter.r for adapter in adapters.values() if hasattr(adapter, "r")), default=None),
        notes=list(run.notes),
        **same,
    )
