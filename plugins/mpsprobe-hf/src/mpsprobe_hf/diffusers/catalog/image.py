"""Image pipelines other than Stable Diffusion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mpsprobe_hf.diffusers.catalog.autoencoders import DC_AE, FLUX_2_VAE, FLUX_VAE, QWEN_VAE, SDXL_VAE
from mpsprobe_hf.diffusers.catalog.encoders import (
    CLIP_L,
    GEMMA_2_2B,
    MISTRAL_SMALL_24B,
    QWEN_2_5_VL_7B,
    QWEN_3_4B,
    QWEN_3_4B_LANGUAGE,
    T5_XXL,
)
from mpsprobe_hf.diffusers.catalog.entry import Component, Entry

_SMALL = {"height": 64, "width": 64}
_SHIFTED = {
    "use_dynamic_shifting": True, "shift": 3.0, "base_shift": 0.5, "max_shift": 1.15, "base_image_seq_len": 256,
    "max_image_seq_len": 4096,
}  # fmt: skip


def _flow(**config: Any) -> Component:
    return Component("FlowMatchEulerDiscreteScheduler", config)


FLUX_1_DEV = Entry(
    name="flux.1-dev",
    pipeline="FluxPipeline",
    checkpoint="black-forest-labs/FLUX.1-dev",
    summary="Text to image, 1024 x 1024, 12 billion parameters.",
    components={
        "vae": FLUX_VAE,
        "text_encoder": CLIP_L,
        "text_encoder_2": T5_XXL,
        "transformer": Component("FluxTransformer2DModel", {"guidance_embeds": True}),
        "scheduler": _flow(**_SHIFTED),
    },
    small=_SMALL,
)


def _flux(
    name: str, pipeline: str, checkpoint: str, summary: str, inputs: dict[str, Any] | None = None, **components: Any
) -> Entry:
    given = {**FLUX_1_DEV.components, **components}
    return replace(
        FLUX_1_DEV,
        name=name,
        pipeline=pipeline,
        checkpoint=checkpoint,
        summary=summary,
        components=given,
        inputs=inputs or {},
    )


def flux() -> Iterator[Entry]:
    """FLUX.1, FLUX.2 and Chroma."""
    yield FLUX_1_DEV
    yield _flux(
        "flux.1-schnell",
        "FluxPipeline",
        "black-forest-labs/FLUX.1-schnell",
        "FLUX.1 in one to four steps.",
        inputs={"guidance_scale": 0.0, "max_sequence_length": 256},
        transformer=Component("FluxTransformer2DModel"),
        scheduler=_flow(shift=1.0),
    )
    kontext = _flux(
        "flux.1-kontext-dev",
        "FluxKontextPipeline",
        "black-forest-labs/FLUX.1-Kontext-dev",
        "FLUX.1 that edits an image by what the prompt says.",
    )
    yield replace(kontext, small={**_SMALL, "max_area": 64 * 64, "_auto_resize": False})
    yield _flux(
        "flux.1-fill-dev",
        "FluxFillPipeline",
        "black-forest-labs/FLUX.1-Fill-dev",
        "FLUX.1 that fills a masked part.",
        transformer=Component(
            "FluxTransformer2DModel", {"guidance_embeds": True, "in_channels": 384, "out_channels": 64}
        ),
    )
    yield Entry(
        name="flux.2-dev",
        pipeline="Flux2Pipeline",
        checkpoint="black-forest-labs/FLUX.2-dev",
        summary="Text to image, 1024 x 1024, 32 billion parameters and a text encoder of 24 billion.",
        components={
            "vae": FLUX_2_VAE,
            "text_encoder": MISTRAL_SMALL_24B,
            "transformer": Component("Flux2Transformer2DModel"),
            "scheduler": _flow(**_SHIFTED),
        },
        small=_SMALL,
    )
    yield Entry(
        name="flux.2-klein-4b",
        pipeline="Flux2KleinPipeline",
        checkpoint="black-forest-labs/FLUX.2-klein-4B",
        summary="Text to image, 1024 x 1024, in four steps.",
        components={
            "vae": FLUX_2_VAE,
            "text_encoder": QWEN_3_4B_LANGUAGE,
            "transformer": Component(
                "Flux2Transformer2DModel",
                {
                    "num_layers": 5, "num_single_layers": 20, "num_attention_heads": 24, "joint_attention_dim": 7680,
                    "guidance_embeds": False,
                },
            ),
            "scheduler": _flow(**_SHIFTED),
        },
        settings={"is_distilled": True},
        inputs={"guidance_scale": 1.0},
        small=_SMALL,
    )  # fmt: skip
    yield Entry(
        name="chroma1-hd",
        pipeline="ChromaPipeline",
        checkpoint="lodestones/Chroma1-HD",
        summary="Text to image on FLUX.1's architecture, 8.9 billion parameters.",
        components={
            "vae": FLUX_VAE,
            "text_encoder": T5_XXL,
            "transformer": Component("ChromaTransformer2DModel"),
            "scheduler": _flow(shift=1.0),
        },
        small=_SMALL,
    )


def image() -> Iterator[Entry]:
    """All of them."""
    yield from flux()
    qwen = Entry(
        name="qwen-image",
        pipeline="QwenImagePipeline",
        checkpoint="Qwen/Qwen-Image",
        summary="Text to image, 1024 x 1024, 20 billion parameters.",
        components={
            "vae": QWEN_VAE,
            "text_encoder": QWEN_2_5_VL_7B,
            "transformer": Component("QwenImageTransformer2DModel"),
            "scheduler": _flow(
                use_dynamic_shifting=True, base_shift=0.5, max_shift=0.9, base_image_seq_len=256,
                max_image_seq_len=8192, shift_terminal=0.02, time_shift_type="exponential",
            ),
        },
        inputs={"negative_prompt": " "},
        small=_SMALL,
    )  # fmt: skip
    yield qwen
    yield Entry(
        name="z-image-turbo",
        pipeline="ZImagePipeline",
        checkpoint="Tongyi-MAI/Z-Image-Turbo",
        summary="Text to image, 1024 x 1024, 6 billion parameters, in eight steps.",
        components={
            "vae": FLUX_VAE,
            "text_encoder": QWEN_3_4B,
            "transformer": Component("ZImageTransformer2DModel", {}, {"n_layers": 1, "n_refiner_layers": 1}),
            "scheduler": _flow(shift=3.0),
        },
        inputs={"guidance_scale": 0.0},
        small=_SMALL,
    )
    yield Entry(
        name="pixart-sigma",
        pipeline="PixArtSigmaPipeline",
        checkpoint="PixArt-alpha/PixArt-Sigma-XL-2-1024-MS",
        summary="Text to image, 1024 x 1024, 0.6 billion parameters and T5.",
        components={
            "vae": SDXL_VAE,
            "text_encoder": T5_XXL,
            "transformer": Component(
                "PixArtTransformer2DModel",
                {"caption_channels": 4096, "interpolation_scale": 2, "use_additional_conditions": False},
            ),
            "scheduler": Component("DPMSolverMultistepScheduler"),
        },
        small={**_SMALL, "use_resolution_binning": False},
    )
    yield Entry(
        name="sana-1.6b",
        pipeline="SanaPipeline",
        checkpoint="Efficient-Large-Model/Sana_1600M_1024px_diffusers",
        summary="Text to image, 1024 x 1024, linear attention.",
        components={
            "vae": DC_AE,
            "text_encoder": GEMMA_2_2B,
            "transformer": Component("SanaTransformer2DModel"),
            "scheduler": Component(
                "DPMSolverMultistepScheduler",
                {"prediction_type": "flow_prediction", "use_flow_sigmas": True, "flow_shift": 3.0},
            ),
        },
        small={**_SMALL, "use_resolution_binning": False},
    )
    yield Entry(
        name="lumina-image-2.0",
        pipeline="Lumina2Pipeline",
        checkpoint="Alpha-VLLM/Lumina-Image-2.0",
        summary="Text to image, 1024 x 1024, 2.6 billion parameters.",
        components={
            "vae": FLUX_VAE,
            "text_encoder": GEMMA_2_2B,
            "transformer": Component(
                "Lumina2Transformer2DModel", {"cap_feat_dim": 2304, "sample_size": 128, "axes_lens": (300, 512, 512)}
            ),
            "scheduler": _flow(shift=6.0),
        },
        small=_SMALL,
    )
    yield Entry(
        name="auraflow",
        pipeline="AuraFlowPipeline",
        checkpoint="fal/AuraFlow-v0.3",
        summary="Text to image, 1024 x 1024, 6.8 billion parameters.",
        components={
            "vae": SDXL_VAE,
            "text_encoder": Component(
                "UMT5EncoderModel",
                {"d_model": 2048, "d_ff": 5120, "d_kv": 64, "num_heads": 32, "num_layers": 24, "vocab_size": 32128,
                 "feed_forward_proj": "gated-gelu"},
            ),
            "transformer": Component(
                "AuraFlowTransformer2DModel", {"pos_embed_max_size": 9216},
                {"num_mmdit_layers": 1, "num_single_dit_layers": 1, "pos_embed_max_size": 1024},
            ),
            "scheduler": _flow(shift=1.73),
        },
        small=_SMALL,
    )  # fmt: skip
