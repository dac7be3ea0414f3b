"""Latent diffusion: a step of training, then DDIM with guidance, and images of the latents."""

from __future__ import annotations

import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel

device = "mps" if torch.backends.mps.is_available() else "cpu"
torch.manual_seed(0)
encoder = AutoencoderKL(
    down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    block_out_channels=(16, 16), latent_channels=4, norm_num_groups=8,
).to(device)  # fmt: skip
unet = UNet2DConditionModel(
    sample_size=8, block_out_channels=(16, 32), layers_per_block=1, cross_attention_dim=16, attention_head_dim=4,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    norm_num_groups=8,
).to(device)  # fmt: skip
optimizer, schedule = torch.optim.AdamW(unet.parameters(), 1e-3), DDIMScheduler(num_train_timesteps=50)
text = torch.randn(2, 3, 16).to(device)
for _ in range(2):
    with torch.no_grad():
        latents = encoder.encode(torch.rand(2, 3, 16, 16).to(device)).latent_dist.mean * 0.18
    noise, times = torch.randn(2, 4, 8, 8).to(device), torch.randint(0, 50, (2,), device=device)
    found = unet(schedule.add_noise(latents, noise, times), times, encoder_hidden_states=text).sample
    loss = torch.nn.functional.mse_loss(found, noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")  # group_norm leaves the layout to the CPU only, so the last digits differ
schedule.set_timesteps(3)
latents = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(1)).to(device)
with torch.no_grad():
    for time in schedule.timesteps:
        without, guided = unet(torch.cat([latents] * 2), time, encoder_hidden_states=text).sample.chunk(2)
        latents = schedule.step(without + 3 * (guided - without), time, latents).prev_sample
    image = encoder.decode(latents / 0.18).sample.clamp(-1, 1)
print(f"{image.abs().mean().item():.4f} {latents.abs().mean().item():.4f}")
