"""A training step as diffusers' own training scripts take it: of the denoiser, or of LoRA adapters on it.

Facts, from ``train_text_to_image_lora.py``, ``train_dreambooth_lora_sdxl.py`` and ``train_dreambooth_lora_flux.py`` of
diffusers 0.42: the denoiser is frozen and gets adapters on the projections of its attention; they alone are trained, in
float32 where the model is in float16. The dreambooth scripts compute embeddings before the loop, and latents too where
they are asked to. Noise is added to latents, and the denoiser predicts it, or the flow.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_hf.diffusers.models import quiet
from mpsprobe_hf.diffusers.parts import part
from mpsprobe_hf.diffusers.recipe import Recipe
from mpsprobe_hf.installed import check_installed

SAMPLING = "none"
"""How timesteps are drawn: uniformly, as the scripts do unless asked otherwise."""


class Flow:
    """Rectified flow, as ``train_dreambooth_lora_sd3.py`` and ``…_flux.py`` have it: the target is noise - latents."""

    against = "the flow"

    def __init__(self, config: Mapping[str, Any]) -> None:
        from diffusers import FlowMatchEulerDiscreteScheduler

        shift = config.get("shift", config.get("flow_shift", 1.0))
        self.scheduler: Any = FlowMatchEulerDiscreteScheduler(shift=shift)

    def noised(self, latents: torch.Tensor, noise: torch.Tensor, time: torch.Tensor) -> tuple[Any, Any, torch.Tensor]:
        """Noisy latents, timesteps and the target; ``time`` is what the pipeline passes for a timestep."""
        from diffusers.training_utils import compute_density_for_timestep_sampling

        count = self.scheduler.config.num_train_timesteps
        drawn = compute_density_for_timestep_sampling(SAMPLING, latents.shape[0], logit_mean=0.0, logit_std=1.0)
        timesteps = self.scheduler.timesteps[(drawn * count).long()].to(latents.device)
        schedule = self.scheduler.timesteps.to(latents.device)
        places = [(schedule == timestep).nonzero().item() for timestep in timesteps]
        sigmas = self.scheduler.sigmas.to(device=latents.device, dtype=latents.dtype)[places].flatten()
        sigmas = sigmas.reshape(-1, *(1,) * (latents.dim() - 1))
        if time.is_floating_point():
            timesteps = timesteps.to(time.dtype)
        return (1.0 - sigmas) * latents + sigmas * noise, timesteps / count, noise - latents


class Noise:
    """Denoising diffusion, as ``train_text_to_image_lora.py`` has it: noise, velocity or the latents themselves."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        from diffusers import DDPMScheduler

        with quiet():
            self.scheduler: Any = DDPMScheduler.from_config(config)
        self.kind: str = self.scheduler.config.prediction_type
        self.against = {"epsilon": "the noise", "v_prediction": "the velocity"}.get(self.kind, "the latents")

    def noised(self, latents: torch.Tensor, noise: torch.Tensor, time: torch.Tensor) -> tuple[Any, Any, torch.Tensor]:
        """As ``Flow.noised``."""
        del time
        count = self.scheduler.config.num_train_timesteps
        timesteps = torch.randint(0, count, (latents.shape[0],), device=latents.device).long()
        noisy = self.scheduler.add_noise(latents, noise, timesteps)
        if self.kind == "epsilon":
            return noisy, timesteps, noise
        target = self.scheduler.get_velocity(latents, noise, timesteps) if self.kind == "v_prediction" else latents
        return noisy, timesteps, target


def loss_for(scheduler: Any) -> Flow | Noise:
    """The one that goes with the pipeline's scheduler."""
    config = scheduler.config
    flows = "FlowMatch" in type(scheduler).__name__ or config.get("prediction_type") == "flow_prediction"
    return Flow(config) if flows else Noise(config)


def is_known(scheduler: Any) -> bool:
    """Whether the scripts train pipelines with such a scheduler, which has betas or matches a flow."""
    return isinstance(loss_for(scheduler), Flow) or "beta_schedule" in scheduler.config


def difference(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Their mean squared error in float32.

    Where one has more channels, only the first count: a prediction may have the variance after the noise, and latents
    a mask or another image after them.
    """
    for axis, (length, other) in enumerate(zip(prediction.shape, target.shape, strict=True)):
        if length != other:
            prediction, target = (tensor.narrow(axis, 0, min(length, other)) for tensor in (prediction, target))
    return torch.nn.functional.mse_loss(prediction.float(), target.float(), reduction="mean")


PROJECTIONS = ("to_k", "to_q", "to_v", "to_out.0")
"""The modules that the scripts put adapters on."""
TIMES = ("timestep", "t")
"""What denoisers call their timestep."""


def training_step(recipe: Recipe, options: RunOptions, who: str) -> TorchRun:
    """The denoiser, with adapters where the options ask for LoRA, and a step: noise, prediction, loss.

    Raises MissingPackage: peft is not installed; WorkloadError: the inputs of the denoiser could not be found, or have
    no timestep.
    """
    if options.lora:
        check_installed(f"{who} with LoRA adapters", ("peft",))
    name = recipe.denoiser or ""
    component = part(recipe, name, options, who, guided=False)
    parameters = list(inspect.signature(type(component.model).forward).parameters)[1:]
    inputs = {**dict(zip(parameters, component.args, strict=False)), **component.kwargs}
    time = next((time for time in TIMES if time in inputs), None)
    if time is None:
        raise WorkloadError(f"the {name} of {who} gets no timestep", "Train it in a function: path/to/file.py:function")
    scheduler = component.pipeline.scheduler
    loss = loss_for(scheduler)
    trained = (
        f"LoRA of rank {options.lora_rank} on the attention of the {name} is" if options.lora else f"the {name} is"
    )
    notes = [
        *recipe.notes,
        f"{trained} trained against {loss.against}",
        "latents and embeddings were computed before the step",
    ]
    if not is_known(scheduler):
        notes.append(f"the loss was made up: diffusers trains nothing with {type(scheduler).__name__}")
    return TorchRun(
        model=with_adapters(component.model, options) if options.lora else component.model.train(),
        kwargs=inputs,
        architecture=type(component.model).__name__,
        call=_Step(loss, parameters[0], time),
        batch_size=options.batch_size or 1,
        notes=notes,
    )


class _Step:
    """Noise, prediction and loss; ``latents`` and ``time`` are arguments of the model."""

    def __init__(self, loss: Flow | Noise, latents: str, time: str) -> None:
        self._loss = loss
        self._latents = latents
        self._time = time

    def __call__(self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor:
        given, before = kwargs[self._latents], kwargs[self._time]
        latents = _together(given)
        noisy, timesteps, target = self._loss.noised(latents, torch.randn_like(latents), before)
        several = before.dim() > 1  # one for each token
        output = model(
            **{
                **kwargs,
                self._latents: noisy if given is latents else list(noisy.unbind()),
                self._time: before if several else timesteps,
            }
        )
        return difference(_together(output if isinstance(output, torch.Tensor) else output[0]), target)


def _together(tensors: Any) -> torch.Tensor:
    """A batch out of a list with one tensor for each image, which some denoisers take and return."""
    return tensors if isinstance(tensors, torch.Tensor) else torch.stack(list(tensors))


def with_adapters(model: Any, options: RunOptions) -> Any:
    """``model`` in ``train`` mode, frozen but for LoRA adapters."""
    from peft import LoraConfig, inject_adapter_in_model

    linear = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    targets = [name for name in linear if name.endswith(PROJECTIONS)] or [name for name in linear if "att" in name]
    rank = options.lora_rank
    model.requires_grad_(False)
    config = LoraConfig(r=rank, lora_alpha=rank, init_lora_weights="gaussian", target_modules=targets)
    inject_adapter_in_model(config, model)
    for parameter in model.parameters():
        if parameter.requires_grad and options.dtype == "float16":
            parameter.data = parameter.data.float()
    return model.train()
