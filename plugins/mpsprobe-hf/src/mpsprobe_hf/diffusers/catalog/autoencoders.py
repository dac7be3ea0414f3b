"""Autoencoders that several pipelines share, as the ``config.json`` of their checkpoints has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.diffusers.catalog.entry import Component

_FOUR_BLOCKS = {
    "block_out_channels": (128, 256, 512, 512), "layers_per_block": 2,
    "down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4,
}  # fmt: skip
_16_CHANNELS = {**_FOUR_BLOCKS, "latent_channels": 16, "sample_size": 1024}
_SMALL = {"block_out_channels": (32, 64, 64, 64)}


def _kl(config: Mapping[str, Any]) -> Component:
    return Component("AutoencoderKL", config, _SMALL)


SD_VAE = _kl({**_FOUR_BLOCKS, "sample_size": 512})
SD_2_VAE = _kl({**_FOUR_BLOCKS, "sample_size": 768})
SDXL_VAE = _kl({**_FOUR_BLOCKS, "sample_size": 1024, "scaling_factor": 0.13025})
SD_3_VAE = _kl(
    {**_16_CHANNELS, "scaling_factor": 1.5305, "shift_factor": 0.0609,
     "use_quant_conv": False, "use_post_quant_conv": False}
)  # fmt: skip
FLUX_VAE = _kl(
    {**_16_CHANNELS, "scaling_factor": 0.3611, "shift_factor": 0.1159,
     "use_quant_conv": False, "use_post_quant_conv": False}
)  # fmt: skip
FLUX_2_VAE = Component("AutoencoderKLFlux2", {}, _SMALL)
DC_AE = Component(
    "AutoencoderDC",
    {
        "encoder_block_types": ("ResBlock",) * 3 + ("EfficientViTBlock",) * 3,
        "decoder_block_types": ("ResBlock",) * 3 + ("EfficientViTBlock",) * 3,
        "encoder_layers_per_block": (2, 2, 2, 3, 3, 3),
        "decoder_layers_per_block": (3, 3, 3, 3, 3, 3),
        "downsample_block_type": "conv",
        "upsample_block_type": "interpolate",
        "decoder_norm_types": "rms_norm",
        "decoder_act_fns": "silu",
        "scaling_factor": 0.41407,
    },
    small={
        "encoder_block_out_channels": (32, 32, 32, 64, 64, 64), "decoder_block_out_channels": (32, 32, 32, 64, 64, 64),
        "encoder_layers_per_block": (1,) * 6, "decoder_layers_per_block": (1,) * 6,
    },
)  # fmt: skip
"""mit-han-lab/dc-ae-f32c32-sana-1.1-diffusers."""
WAN_VAE = Component("AutoencoderKLWan", {}, {"base_dim": 16})
QWEN_VAE = Component("AutoencoderKLQwenImage", {}, {"base_dim": 16})
