"""Models of the years since 2024 that read images and write text: an image's tokens stand first, as many as it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.catalog.entry import Architecture, Entry, Field
from mpsprobe_hf.catalog.fields import image, tokens
from mpsprobe_hf.catalog.language_models import SIZES

FEW = {"inference": 1, "training": 2}


def reader(
    name: str,
    checkpoint: str,
    parameters: int,
    *,
    model_class: str,
    model_type: str,
    summary: str,
    config: Mapping[str, Any],
    pixels: tuple[Field, ...],
    image_token: int,
    count: int,
    marks: str = "",
    pad: int = 0,
    longest: int = 0,
) -> Entry:
    """A model that is given an image, or a sound, and a text, and trained with the text.

    Args:
        name, checkpoint, parameters, model_class, model_type, summary, config, longest: as an ``Entry`` has them;
            ``text_config`` is among the configuration.
        pixels: what its processor makes of one image, or of one sound.
        image_token: the id that stands for a part of it.
        count: how many of these it takes.
        marks: the argument that has 1 for each of these and 0 for text; empty where there is none.
        pad: the id of the padding token.
    """
    vocabulary, keep, leads = config["text_config"]["vocab_size"], {"keep": count}, ((image_token, count),)
    inputs = (
        tokens(vocabulary, pad=pad, leads=leads, keep=count),
        Field("attention_mask", "padding_mask", ("batch", "seq"), settings=keep),
        *pixels,
        *((Field(marks, "spans", ("batch", "seq"), settings={"leads": leads}),) if marks else ()),
    )
    labels = Field("labels", "token_labels", ("batch", "seq"), vocabulary, keep)
    return Entry(
        name=name,
        family="multimodal",
        summary=f"{checkpoint.partition('/')[2]}: {summary}",
        checkpoint=checkpoint,
        model_type=model_type,
        config=config,
        inference=Architecture(model_class, inputs, parameters),
        training=Architecture(model_class, (*inputs, labels), parameters),
        batch_size=FEW,
        seq_len=count + 64,
        shortest=count + 1,
        longest=longest,
    )


def text(sizes: tuple[int, ...], theta: float = 0.0, **config: Any) -> dict[str, Any]:
    """A language model's configuration, its sizes in the order of ``SIZES``."""
    if theta:
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}
    return {**dict(zip(SIZES, sizes, strict=True)), **config}


SIGLIP_SO400M = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16}
PIXTRAL = {
    "model_type": "pixtral",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_size": 1540,
    "patch_size": 14,
}
MISTRAL3: dict[str, Any] = {
    "model_class": "Mistral3ForConditionalGeneration",
    "model_type": "mistral3",
    "pixels": (image(448), Field("image_sizes", "rows", ("batch", 2), settings={"row": (448, 448)})),
    "image_token": 10,
    "count": 256,
    "pad": 11,
}
FLORENCE_TOKENS = 577
"""Tokens of an image in Florence-2: (768 / 32) squared, and one for all of them."""
FLORENCE_INPUTS = (
    tokens(51328, pad=1, leads=((51289, FLORENCE_TOKENS),), keep=FLORENCE_TOKENS),
    Field("attention_mask", "padding_mask", ("batch", "seq"), settings={"keep": FLORENCE_TOKENS}),
    image(768),
)
TIED = {"tie_word_embeddings": True}


def tiles(side: int) -> tuple[Field, ...]:
    """A large image as SmolVLM's processor cuts it: four by four tiles, and once more as a whole."""
    return (
        Field("pixel_values", "floats", ("batch", 17, 3, side, side)),
        Field("pixel_attention_mask", "ones", ("batch", 17, side, side)),
    )


ENTRIES = (
    reader(
        "gemma-3-4b",
        "google/gemma-3-4b-it",
        4_300_079_472,
        model_class="Gemma3ForConditionalGeneration",
        model_type="gemma3",
        summary="chat about an image, decoder of 34 layers",
        config={
            "text_config": text(
                (262208, 2560, 34, 8, 4, 10240, 131072),
                head_dim=256,
                query_pre_attn_scalar=256,
                sliding_window=1024,
                rope_parameters={
                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                    "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                },
            ),
            "vision_config": {**SIGLIP_SO400M, "image_size": 896, "patch_size": 14, "vision_use_head": False},
            "mm_tokens_per_image": 256,
        },
        pixels=(image(896),),
        image_token=262144,
        count=256,
        marks="token_type_ids",
        longest=131072,
    ),
    reader(
        "smolvlm",
        "HuggingFaceTB/SmolVLM-Instruct",
        2_246_272_880,
        model_class="Idefics3ForConditionalGeneration",
        model_type="idefics3",
        summary="chat about an image, decoder of 24 layers",
        config={
            "text_config": text(
                (49155, 2048, 24, 32, 32, 8192, 16384), 273768.0, model_type="llama", rms_norm_eps=1e-5
            ),
            "vision_config": {**SIGLIP_SO400M, "image_size": 384, "patch_size": 14},
            "scale_factor": 3,
            "image_token_id": 49153,
        },
        pixels=tiles(384),
        image_token=49153,
        count=17 * 81,
        pad=2,
        longest=16384,
    ),
    reader(
        "smolvlm2-500m",
        "HuggingFaceTB/SmolVLM2-500M-Video-Instruct",
        507_482_304,
        model_class="SmolVLMForConditionalGeneration",
        model_type="smolvlm",
        summary="chat about an image, decoder of 32 layers",
        config={
            "text_config": text(
                (49280, 960, 32, 15, 5, 2560, 8192), 1e5, model_type="llama", rms_norm_eps=1e-5, head_dim=64
            ),
            "vision_config": {"hidden_size": 768, "num_attention_heads": 12, "image_size": 512, "patch_size": 16},
            "scale_factor": 4,
            "image_token_id": 49190,
        },
        pixels=tiles(512),
        image_token=49190,
        count=17 * 64,
        pad=2,
        longest=8192,
    ),
    reader(
        "granite-docling-258m",
        "ibm-granite/granite-docling-258M",
        257_517_120,
        model_class="Idefics3ForConditionalGeneration",
        model_type="idefics3",
        summary="a page's image to its text, decoder of 30 layers",
        config={
            "text_config": text(
                (100352, 576, 30, 9, 3, 1536, 8192), 1e5, model_type="llama", rms_norm_eps=1e-5, head_dim=64, **TIED
            ),
            "vision_config": {
                "hidden_size": 768,
                "num_hidden_layers": 12,
                "num_attention_heads": 12,
                "intermediate_size": 3072,
                "image_size": 512,
                "patch_size": 16,
            },
            "scale_factor": 4,
            "image_token_id": 100270,
            **TIED,
        },
        pixels=tiles(512),
        image_token=100270,
        count=17 * 64,
        longest=8192,
    ),
    reader(
        "internvl3-1b",
        "OpenGVLab/InternVL3-1B-hf",
        938_193_024,
        model_class="InternVLForConditionalGeneration",
        model_type="internvl",
        summary="chat about an image, decoder of 24 layers",
        config={
            "text_config": text((151674, 896, 24, 14, 2, 4864, 32768), 1e6, model_type="qwen2"),
            "vision_config": {"attention_bias": True, "layer_scale_init_value": 0.1},
            "tie_word_embeddings": False,
        },
        pixels=(image(448),),
        image_token=151667,
        count=256,
        pad=151643,
        longest=32768,
    ),
    reader(
        "mistral-small-3.1-24b",
        "mistralai/Mistral-Small-3.1-24B-Instruct-2503",
        24_011_361_280,
        summary="chat about an image, decoder of 40 layers",
        config={
            "text_config": text(
                (131072, 5120, 40, 32, 8, 32768, 131072),
                1e9,
                model_type="mistral",
                head_dim=128,
                rms_norm_eps=1e-5,
                sliding_window=None,
            ),
            "vision_config": PIXTRAL,
            "tie_word_embeddings": False,
        },
        longest=131072,
        **MISTRAL3,
    ),
    reader(
        "ministral-3-8b",
        "mistralai/Ministral-3-8B-Instruct-2512",
        8_918_026_240,
        summary="chat about an image, decoder of 34 layers",
        config={
            "text_config": text((131072, 4096, 34, 32, 8, 14336, 262144), model_type="ministral3"),
            "vision_config": PIXTRAL,
            "tie_word_embeddings": False,
        },
        longest=262144,
        **MISTRAL3,
    ),
    reader(
        "lfm2-vl-450m",
        "LiquidAI/LFM2-VL-450M",
        450_822_656,
        model_class="Lfm2VlForConditionalGeneration",
        model_type="lfm2_vl",
        summary="chat about an image, decoder of 16 layers",
        config={
            "text_config": text(
                (65536, 1024, 16, 16, 8, 6656, 128000), 1e6, model_type="lfm2", full_attn_idxs=[2, 5, 8, 10, 12, 14]
            ),
            "vision_config": {
                "model_type": "siglip2_vision_model",
                "hidden_size": 768,
                "num_hidden_layers": 12,
                "num_attention_heads": 12,
                "intermediate_size": 3072,
                "num_patches": 256,
                "vision_use_head": False,
            },
        },
        pixels=(
            Field("pixel_values", "floats", ("batch", 1024, 768)),
            Field("spatial_shapes", "rows", ("batch", 2), settings={"row": (32, 32)}),
            Field("pixel_attention_mask", "ones", ("batch", 1024)),
        ),
        image_token=396,
        count=256,
        longest=128000,
    ),
    Entry(
        name="florence-2-base",
        family="multimodal",
        summary="Florence-2-base: captions, boxes and text of an image, 6 + 6 layers",
        checkpoint="florence-community/Florence-2-base",
        model_type="florence2",
        config={
            "text_config": {
                "model_type": "bart",
                "vocab_size": 51328,
                "d_model": 768,
                "encoder_layers": 6,
                "decoder_layers": 6,
                "encoder_attention_heads": 12,
                "decoder_attention_heads": 12,
                "encoder_ffn_dim": 3072,
                "decoder_ffn_dim": 3072,
                "max_position_embeddings": 1024,
            },
            "vision_config": {"projection_dim": 768},
            "image_token_id": 51289,
        },
        inference=Architecture(
            "Florence2ForConditionalGeneration",
            (*FLORENCE_INPUTS, Field("decoder_input_ids", "integers", ("batch", 64), 51289)),
            231_443_968,
        ),
        training=Architecture(
            "Florence2ForConditionalGeneration",
            (*FLORENCE_INPUTS, Field("labels", "integers", ("batch", 64), 51289)),
            231_443_968,
        ),
        batch_size=FEW,
        seq_len=FLORENCE_TOKENS + 16,
        shortest=FLORENCE_TOKENS + 1,
        longest=1024,
    ),
)
