"""What a diffusion model does with its network: noise is added in training, and taken away step by step in use."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from mpsprobe_denoiser.network import UNet

TIMES = 1000
SAMPLING_STEPS = 4

Predict = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Diffusion(nn.Module):
    """A network with the noise schedule that it is trained and used with (linear in beta, as in DDPM).

    Called with ``images`` it gives the training loss, without them it makes images of noise.
    """

    kept: torch.Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("kept", torch.cumprod(1 - torch.linspace(1e-4, 0.02, TIMES), 0))

    def forward(
        self, noise: torch.Tensor, images: torch.Tensor | None = None, times: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        """``noise`` and ``images`` are (batch, 3, height, width), ``times`` (batch) whole numbers below 1000."""
        if images is None or times is None:
            return {"images": sample(self.network, noise, self.kept)}
        noisy = add_noise(images, noise, self.kept[times])
        return {"loss": nn.functional.mse_loss(self.network(noisy, times.to(images.dtype)), noise)}


def add_noise(images: torch.Tensor, noise: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """``images`` with noise in them: ``kept`` (batch) is the share of the image's variance that is left."""
    kept = kept[:, None, None, None]
    return kept.sqrt() * images + (1 - kept).sqrt() * noise


def sample(predict: Predict, noise: torch.Tensor, kept: torch.Tensor, steps: int = SAMPLING_STEPS) -> torch.Tensor:
    """Images out of ``noise``, in a few deterministic steps (DDIM with eta 0).

    Args:
        predict: the noise in images, for a time for each.
        kept: the schedule, for every time.
    """
    image = noise
    times = [round(TIMES * (steps - step) / steps) - 1 for step in range(steps)]
    for time, following in zip(times, [*times[1:], None], strict=True):
        now = kept[time]
        then = kept[following] if following is not None else torch.ones_like(now)
        found = predict(image, torch.full((len(image),), float(time), dtype=image.dtype, device=image.device))
        clean = (image - (1 - now).sqrt() * found) / now.sqrt()
        image = then.sqrt() * clean + (1 - then).sqrt() * found
    return image


def make(width: int) -> Diffusion:
    """The model with random weights."""
    return Diffusion(UNet(width))
