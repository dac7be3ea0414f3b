"""Video pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mpsprobe_hf.diffusers.catalog.autoencoders import WAN_VAE
from mpsprobe_hf.diffusers.catalog.encoders import CLIP_L, CLIP_VISION_H, LLAMA_3_8B, T5_XXL, UMT5_XXL
from mpsprobe_hf.diffusers.catalog.entry import Component, Entry
from mpsprobe_hf.diffusers.catalog.stable_diffusion import SD_1_5

_SMALL = {"height": 64, "width": 64, "num_frames": 5}
_VIDEO_BLOCKS = {"block_out_channels": (32, 64, 64, 64)}
_UNIPC = {"prediction_type": "flow_prediction", "use_flow_sigmas": True}

# The means and deviations of the latents of Wan 2.2's autoencoder are left at 0 and 1: they are numbers, not sizes.
_WAN_2_2_VAE = Component(
    "AutoencoderKLWan",
    {
        "base_dim": 160, "decoder_base_dim": 256, "z_dim": 48, "is_residual": True, "in_channels": 12,
        "out_channels": 12, "patch_size": 2, "scale_factor_spatial": 16, "latents_mean": (0.0,) * 48,
        "latents_std": (1.0,) * 48,
    },
    small={"base_dim": 16, "decoder_base_dim": 16},
)  # fmt: skip


def _wan(config: dict[str, Any], shift: float) -> dict[str, Component]:
    return {
        "vae": WAN_VAE,
        "text_encoder": UMT5_XXL,
        "transformer": Component("WanTransformer3DModel", config),
        "scheduler": Component("UniPCMultistepScheduler", {**_UNIPC, "flow_shift": shift}),
    }


def wan() -> Iterator[Entry]:
    """Wan 2.1 and 2.2."""
    first = Entry(
        name="wan2.1-t2v-1.3b",
        pipeline="WanPipeline",
        checkpoint="Wan-AI/Wan2.1-T2V-1.3B-Diffusers",
        summary="Text to video, 81 frames of 832 x 480.",
        components=_wan({"num_layers": 30, "num_attention_heads": 12, "ffn_dim": 8960}, 3.0),
        family="video",
        small=_SMALL,
    )
    yield first
    yield replace(first, name="wan2.1-t2v-14b", checkpoint="Wan-AI/Wan2.1-T2V-14B-Diffusers", components=_wan({}, 3.0))
    yield replace(
        first,
        name="wan2.1-i2v-14b-480p",
        pipeline="WanImageToVideoPipeline",
        checkpoint="Wan-AI/Wan2.1-I2V-14B-480P-Diffusers",
        summary="Image to video, 81 frames of 832 x 480.",
        components={
            **_wan({"in_channels": 36, "image_dim": 1280, "added_kv_proj_dim": 5120}, 3.0),
            "image_encoder": replace(CLIP_VISION_H, class_name="CLIPVisionModel"),
        },
        requires=("ftfy",),
    )
    yield replace(
        first,
        name="wan2.2-ti2v-5b",
        checkpoint="Wan-AI/Wan2.2-TI2V-5B-Diffusers",
        summary="Text to video, 121 frames of 1280 x 704.",
        components={
            **_wan(
                {"in_channels": 48, "out_channels": 48, "num_layers": 30, "num_attention_heads": 24, "ffn_dim": 14336},
                5.0,
            ),
            "vae": _WAN_2_2_VAE,
        },
        settings={"expand_timesteps": True},
        inputs={"height": 704, "width": 1280, "num_frames": 121},
    )
    large = _wan({}, 3.0)
    yield replace(
        first,
        name="wan2.2-t2v-a14b",
        checkpoint="Wan-AI/Wan2.2-T2V-A14B-Diffusers",
        summary="Text to video, 81 frames of 832 x 480, one transformer for high noise and one for low.",
        components={**large, "transformer_2": large["transformer"]},
        settings={"boundary_ratio": 0.875},
    )


def video() -> Iterator[Entry]:
    """All of them."""
    yield from wan()
    yield Entry(
        name="hunyuanvideo",
        pipeline="HunyuanVideoPipeline",
        checkpoint="hunyuanvideo-community/HunyuanVideo",
        summary="Text to video, 61 frames of 512 x 320, 13 billion parameters.",
        components={
            "vae": Component("AutoencoderKLHunyuanVideo", {}, {**_VIDEO_BLOCKS, "layers_per_block": 1}),
            "text_encoder": LLAMA_3_8B,
            "text_encoder_2": CLIP_L,
            "transformer": Component("HunyuanVideoTransformer3DModel"),
            "scheduler": Component("FlowMatchEulerDiscreteScheduler", {"shift": 7.0}),
        },
        family="video",
        inputs={"height": 320, "width": 512, "num_frames": 61},
        small=_SMALL,
    )
    yield Entry(
        name="ltx-video",
        pipeline="LTXPipeline",
        checkpoint="Lightricks/LTX-Video",
        summary="Text to video, 161 frames of 704 x 512, 1.9 billion parameters.",
        components={
            "vae": Component(
                "AutoencoderKLLTXVideo", {},
                {
                    "block_out_channels": (32, 64, 64, 64), "decoder_block_out_channels": (32, 64, 64, 64),
                    "layers_per_block": (1,) * 5, "decoder_layers_per_block": (1,) * 5,
                },
            ),
            "text_encoder": T5_XXL,
            "transformer": Component("LTXVideoTransformer3DModel"),
            "scheduler": Component(
                "FlowMatchEulerDiscreteScheduler",
                {
                    "use_dynamic_shifting": True, "base_shift": 0.95, "max_shift": 2.05, "base_image_seq_len": 1024,
                    "max_image_seq_len": 4096, "shift_terminal": 0.1,
                },
            ),
        },
        family="video",
        small={**_SMALL, "num_frames": 9},
    )  # fmt: skip
    cog_vae = Component("AutoencoderKLCogVideoX", {}, {**_VIDEO_BLOCKS, "layers_per_block": 1})
    cog = Entry(
        name="cogvideox-2b",
        pipeline="CogVideoXPipeline",
        checkpoint="zai-org/CogVideoX-2b",
        summary="Text to video, 49 frames of 720 x 480.",
        components={
            "vae": cog_vae,
            "text_encoder": T5_XXL,
            "transformer": Component("CogVideoXTransformer3DModel"),
            "scheduler": Component(
                "CogVideoXDDIMScheduler",
                {"prediction_type": "v_prediction", "snr_shift_scale": 3.0, "timestep_spacing": "trailing",
                 "rescale_betas_zero_snr": True},
            ),
        },
        family="video",
        small=_SMALL,
    )  # fmt: skip
    yield cog
    yield replace(
        cog,
        name="cogvideox-5b",
        checkpoint="zai-org/CogVideoX-5b",
        components={
            **cog.components,
            "vae": replace(cog_vae, config={"scaling_factor": 0.7}),
            "transformer": Component(
                "CogVideoXTransformer3DModel",
                {"num_layers": 42, "num_attention_heads": 48, "use_rotary_positional_embeddings": True},
            ),
            "scheduler": Component(
                "CogVideoXDPMScheduler",
                {"prediction_type": "v_prediction", "snr_shift_scale": 1.0, "timestep_spacing": "trailing",
                 "rescale_betas_zero_snr": True},
            ),
        },
    )  # fmt: skip
    yield Entry(
        name="animatediff",
        pipeline="AnimateDiffPipeline",
        checkpoint="guoyww/animatediff-motion-adapter-v1-5-2",
        summary="Text to video on Stable Diffusion 1.5, 16 frames of 512 x 512.",
        components={
            **{name: SD_1_5.components[name] for name in ("vae", "text_encoder", "unet")},
            "motion_adapter": Component(
                "MotionAdapter", {"use_motion_mid_block": True, "motion_max_seq_length": 32},
                {"motion_layers_per_block": 1},
            ),
            "scheduler": Component(
                "DDIMScheduler",
                {"beta_schedule": "linear", "beta_start": 0.00085, "beta_end": 0.012, "steps_offset": 1,
                 "clip_sample": False, "timestep_spacing": "linspace"},
            ),
        },
        family="video",
        small={**_SMALL, "num_frames": 2},
    )  # fmt: skip
