"""Stable Diffusion 1.5, 2.1, XL, 3 and 3.5, and what stands on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mpsprobe_hf.diffusers.catalog.autoencoders import SD_2_VAE, SD_3_VAE, SD_VAE, SDXL_VAE
from mpsprobe_hf.diffusers.catalog.encoders import CLIP_BIG_G, CLIP_L, CLIP_L_PROJECTED, OPEN_CLIP_H, T5_XXL
from mpsprobe_hf.diffusers.catalog.entry import Component, Entry

_BETAS = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012}
_PNDM = Component("PNDMScheduler", {**_BETAS, "skip_prk_steps": True, "steps_offset": 1, "set_alpha_to_one": False})
_EULER = Component("EulerDiscreteScheduler", {**_BETAS, "steps_offset": 1, "timestep_spacing": "leading"})

_UNET = Component(
    "UNet2DConditionModel", {"sample_size": 64, "cross_attention_dim": 768}, small={"layers_per_block": 1}
)
_SAFETY = Component(
    "diffusers.pipelines.stable_diffusion.safety_checker:StableDiffusionSafetyChecker",
    {
        "text_config": {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12},
        "vision_config": {
            "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
            "patch_size": 14,
        },
        "projection_dim": 768,
    },
    small={"vision_config": {"num_hidden_layers": 1}},
)  # fmt: skip

SD_1_5 = Entry(
    name="stable-diffusion-1.5",
    pipeline="StableDiffusionPipeline",
    checkpoint="stable-diffusion-v1-5/stable-diffusion-v1-5",
    summary="Text to image, 512 x 512, with its safety checker.",
    components={
        "vae": SD_VAE, "text_encoder": CLIP_L, "unet": _UNET, "scheduler": _PNDM, "safety_checker": _SAFETY,
    },
    small={"height": 64, "width": 64},
)  # fmt: skip

_UNET_2 = {
    "sample_size": 96, "cross_attention_dim": 1024, "attention_head_dim": (5, 10, 20, 20),
    "use_linear_projection": True, "upcast_attention": True,
}  # fmt: skip
SD_2_1 = Entry(
    name="stable-diffusion-2.1",
    pipeline="StableDiffusionPipeline",
    checkpoint="stabilityai/stable-diffusion-2-1",
    summary="Text to image, 768 x 768, v-prediction.",
    components={
        "vae": SD_2_VAE,
        "text_encoder": OPEN_CLIP_H,
        "unet": replace(_UNET, config=_UNET_2),
        "scheduler": Component(
            "DDIMScheduler",
            {**_BETAS, "prediction_type": "v_prediction", "steps_offset": 1, "set_alpha_to_one": False,
             "clip_sample": False},
        ),
    },
    settings={"requires_safety_checker": False},
    small=SD_1_5.small,
)  # fmt: skip

_UNET_XL = {
    "sample_size": 128, "cross_attention_dim": 2048, "attention_head_dim": (5, 10, 20),
    "block_out_channels": (320, 640, 1280), "transformer_layers_per_block": (1, 2, 10),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), "use_linear_projection": True,
    "addition_embed_type": "text_time", "addition_time_embed_dim": 256, "projection_class_embeddings_input_dim": 2816,
}  # fmt: skip
_SMALL_XL = {"layers_per_block": 1, "transformer_layers_per_block": (1, 1, 1)}
SDXL = Entry(
    name="sdxl",
    pipeline="StableDiffusionXLPipeline",
    checkpoint="stabilityai/stable-diffusion-xl-base-1.0",
    summary="Stable Diffusion XL: text to image, 1024 x 1024.",
    components={
        "vae": SDXL_VAE,
        "text_encoder": CLIP_L,
        "text_encoder_2": CLIP_BIG_G,
        "unet": replace(_UNET, config=_UNET_XL, small=_SMALL_XL),
        "scheduler": _EULER,
    },
    small={"height": 64, "width": 64},
)

_SD_3 = {
    "num_layers": 24, "num_attention_heads": 24, "caption_projection_dim": 1536, "pos_embed_max_size": 192,
}  # fmt: skip
SD_3 = Entry(
    name="stable-diffusion-3-medium",
    pipeline="StableDiffusion3Pipeline",
    checkpoint="stabilityai/stable-diffusion-3-medium-diffusers",
    summary="Text to image, 1024 x 1024, a diffusion transformer with three text encoders.",
    components={
        "vae": SD_3_VAE,
        "text_encoder": CLIP_L_PROJECTED,
        "text_encoder_2": CLIP_BIG_G,
        "text_encoder_3": T5_XXL,
        "transformer": Component("SD3Transformer2DModel", _SD_3),
        "scheduler": Component("FlowMatchEulerDiscreteScheduler", {"shift": 3.0}),
    },
    small={"height": 64, "width": 64},
)


def _sd_3_5(name: str, checkpoint: str, **config: object) -> Entry:
    transformer = Component("SD3Transformer2DModel", {**_SD_3, "qk_norm": "rms_norm", **config})
    return replace(SD_3, name=name, checkpoint=checkpoint, components={**SD_3.components, "transformer": transformer})


_LARGE = {"num_layers": 38, "num_attention_heads": 38, "caption_projection_dim": 2432}
_CONTROLNET_XL = {
    key: value for key, value in _UNET_XL.items() if key not in ("sample_size", "up_block_types")
}  # it has one half of the UNet


def _on(entry: Entry, name: str, pipeline: str, checkpoint: str, summary: str, **components: Component) -> Entry:
    """``entry`` with another pipeline around it."""
    given = {**entry.components, **components}
    return replace(
        entry, name=name, pipeline=pipeline, checkpoint=checkpoint, summary=summary, components=given, settings={}
    )


def stable_diffusion() -> Iterator[Entry]:
    """All of them."""
    yield SD_1_5
    yield _on(
        SD_1_5, "stable-diffusion-1.5-img2img", "StableDiffusionImg2ImgPipeline", SD_1_5.checkpoint, "Image to image."
    )
    yield _on(
        SD_1_5,
        "stable-diffusion-inpainting",
        "StableDiffusionInpaintPipeline",
        "stable-diffusion-v1-5/stable-diffusion-inpainting",
        "Stable Diffusion 1.5 that fills a masked part.",
        unet=replace(_UNET, config={**_UNET.config, "in_channels": 9}),
    )
    yield _on(
        SD_1_5,
        "controlnet-canny",
        "StableDiffusionControlNetPipeline",
        "lllyasviel/sd-controlnet-canny",
        "Stable Diffusion 1.5 steered by edges.",
        controlnet=Component("ControlNetModel", {"cross_attention_dim": 768}, {"layers_per_block": 1}),
    )
    yield _on(
        SD_1_5,
        "lcm-dreamshaper",
        "LatentConsistencyModelPipeline",
        "SimianLuo/LCM_Dreamshaper_v7",
        "Stable Diffusion 1.5 in four steps.",
        unet=replace(_UNET, config={**_UNET.config, "time_cond_proj_dim": 256}),
        scheduler=Component("LCMScheduler", _BETAS),
    )
    yield SD_2_1
    yield SDXL
    yield replace(
        SDXL,
        name="sdxl-turbo",
        checkpoint="stabilityai/sdxl-turbo",
        summary="Stable Diffusion XL in one to four steps, 512 x 512.",
        components={
            **SDXL.components,
            "unet": replace(_UNET, config={**_UNET_XL, "sample_size": 64}, small=_SMALL_XL),
            "scheduler": Component("EulerAncestralDiscreteScheduler", {**_BETAS, "timestep_spacing": "trailing"}),
        },
        inputs={"guidance_scale": 0.0},
    )
    yield _on(SDXL, "sdxl-img2img", "StableDiffusionXLImg2ImgPipeline", SDXL.checkpoint, "Image to image.")
    yield _on(
        SDXL,
        "sdxl-inpainting",
        "StableDiffusionXLInpaintPipeline",
        "diffusers/stable-diffusion-xl-1.0-inpainting-0.1",
        "Stable Diffusion XL that fills a masked part.",
        unet=replace(_UNET, config={**_UNET_XL, "in_channels": 9}, small=_SMALL_XL),
    )
    yield _on(
        SDXL,
        "controlnet-canny-sdxl",
        "StableDiffusionXLControlNetPipeline",
        "diffusers/controlnet-canny-sdxl-1.0",
        "Stable Diffusion XL steered by edges.",
        controlnet=Component("ControlNetModel", _CONTROLNET_XL, _SMALL_XL),
    )
    yield SD_3
    yield _sd_3_5(
        "stable-diffusion-3.5-medium",
        "stabilityai/stable-diffusion-3.5-medium",
        pos_embed_max_size=384,
        dual_attention_layers=tuple(range(13)),
    )
    yield _sd_3_5("stable-diffusion-3.5-large", "stabilityai/stable-diffusion-3.5-large", **_LARGE)
