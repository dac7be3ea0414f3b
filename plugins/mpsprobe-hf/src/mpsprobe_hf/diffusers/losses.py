"""The losses of diffusers' training scripts: noise is added to latents, and the denoiser predicts it, or the flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mpsprobe_hf.diffusers.models import quiet

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
        places = [(schedule == one).nonzero().item() for one in timesteps]
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
    for axis, (one, other) in enumerate(zip(prediction.shape, target.shape, strict=True)):
        if one != other:
            prediction, target = (tensor.narrow(axis, 0, min(one, other)) for tensor in (prediction, target))
    return torch.nn.functional.mse_loss(prediction.float(), target.float(), reduction="mean")
