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
    """A model that is given an image and a text, and trained with the text.

    Args:
        name, checkpoint, parameters, model_class, model_type, summary, config, longest: as an ``Entry`` has them;
            ``text_config`` is among the configuration.
        pixels: what its processor makes of one image.
        image_token: the id that stands for a part of an image.
        count: how many of it an image takes.
        marks: the argument that has 1 for each of these and 0 for text; empty where there is none.
        pad: the id of the padding token.
    """
    vocabulary, keep = config["text_config"]["vocab_size"], {"keep": count}
    inputs = (
        tokens(vocabulary, pad=pad, lead=(image_token, count), keep=count),
        Field("attention_mask", "padding_mask", ("batch", "seq"), settings=keep),
        *pixels,
        *((Field(marks, "leading", ("batch", "seq"), settings=keep),) if marks else ()),
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


def patches(side: int, patch: int, values: int) -> tuple[Field, ...]:
    """A square image as Qwen's processors cut it: its patches in one row with those of the batch, and how they lie.

    Args:
        side: pixels of the image.
        patch: pixels of a patch.
        values: in a patch, which is doubled for the two frames of a convolution over time.
    """
    across = side // patch
    return (
        Field("pixel_values", "floats", (f"{across**2}*batch", values)),
        Field("image_grid_thw", "rows", ("batch", 3), settings={"row": (1, across, across)}),
    )


QWEN2_VL: dict[str, Any] = {
    "model_class": "Qwen2_5_VLForConditionalGeneration",
    "model_type": "qwen2_5_vl",
    "pixels": patches(448, 14, 1176),
    "image_token": 151655,
    "count": 256,
    "marks": "mm_token_type_ids",
    "pad": 151643,
    "longest": 128000,
}
QWEN2_VL_ROPE = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
QWEN2_VL_VISION = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "window_size": 112}
QWEN3_VL: dict[str, Any] = {
    **QWEN2_VL,
    "model_class": "Qwen3VLForConditionalGeneration",
    "model_type": "qwen3_vl",
    "pixels": patches(512, 16, 1536),
    "longest": 262144,
}
QWEN3_VL_ROPE = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [24, 20, 20], "mrope_interleaved": True}
QWEN3_VL_VISION = {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16}
QWEN3_VL_DEEP = {"deepstack_visual_indexes": [5, 11, 17]}
QWEN3_5: dict[str, Any] = {
    **QWEN3_VL,
    "model_class": "Qwen3_5ForConditionalGeneration",
    "model_type": "qwen3_5",
    "image_token": 248056,
    "pad": 248044,
}
QWEN3_5_ROPE = {
    "rope_type": "default",
    "rope_theta": 1e7,
    "partial_rotary_factor": 0.25,
    "mrope_section": [11, 11, 10],
    "mrope_interleaved": True,
}
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
TIED = {"tie_word_embeddings": True}


def tiles(side: int) -> tuple[Field, ...]:
    """A large image as SmolVLM's processor cuts it: four by four tiles, and once more as a whole."""
    return (
        Field("pixel_values", "floats", ("batch", 17, 3, side, side)),
        Field("pixel_attention_mask", "ones", ("batch", 17, side, side)),
    )


ENTRIES = (
    reader(
        "qwen2.5-vl-3b",
        "Qwen/Qwen2.5-VL-3B-Instruct",
        3_754_622_976,
        summary="chat about an image, decoder of 36 layers",
        config={
            "text_config": text((151936, 2048, 36, 16, 2, 11008, 128000), rope_parameters=QWEN2_VL_ROPE, **TIED),
            "vision_config": {**QWEN2_VL_VISION, "out_hidden_size": 2048},
            **TIED,
        },
        **QWEN2_VL,
    ),
    reader(
        "qwen2.5-vl-7b",
        "Qwen/Qwen2.5-VL-7B-Instruct",
        8_292_166_656,
        summary="chat about an image, decoder of 28 layers",
        config={
            "text_config": text((152064, 3584, 28, 28, 4, 18944, 128000), rope_parameters=QWEN2_VL_ROPE),
            "vision_config": {**QWEN2_VL_VISION, "out_hidden_size": 3584},
        },
        **QWEN2_VL,
    ),
    reader(
        "qwen3-vl-2b",
        "Qwen/Qwen3-VL-2B-Instruct",
        2_127_532_032,
        summary="chat about an image, decoder of 28 layers",
        config={
            "text_config": text(
                (151936, 2048, 28, 16, 8, 6144, 262144), rope_parameters=QWEN3_VL_ROPE, head_dim=128, **TIED
            ),
            "vision_config": {**QWEN3_VL_VISION, **QWEN3_VL_DEEP, "out_hidden_size": 2048},
            **TIED,
        },
        **QWEN3_VL,
    ),
    reader(
        "qwen3-vl-4b",
        "Qwen/Qwen3-VL-4B-Instruct",
        4_437_815_808,
        summary="chat about an image, decoder of 36 layers",
        config={
            "text_config": text(
                (151936, 2560, 36, 32, 8, 9728, 262144), rope_parameters=QWEN3_VL_ROPE, head_dim=128, **TIED
            ),
            "vision_config": {**QWEN3_VL_VISION, **QWEN3_VL_DEEP, "out_hidden_size": 2560},
            **TIED,
        },
        **QWEN3_VL,
    ),
    reader(
        "qwen3-vl-8b",
        "Qwen/Qwen3-VL-8B-Instruct",
        8_767_123_696,
        summary="chat about an image, decoder of 36 layers",
        config={
            "text_config": text((151936, 4096, 36, 32, 8, 12288, 262144), rope_parameters=QWEN3_VL_ROPE, head_dim=128),
            "vision_config": {"out_hidden_size": 4096},
        },
        **QWEN3_VL,
    ),
    reader(
        "qwen3.5-0.8b",
        "Qwen/Qwen3.5-0.8B",
        852_985_920,
        summary="chat about an image, 18 of 24 layers with linear attention",
        config={
            "text_config": text(
                (248320, 1024, 24, 8, 2, 3584, 262144),
                rope_parameters=QWEN3_5_ROPE,
                linear_num_value_heads=16,
                **TIED,
            ),
            "vision_config": {
                "depth": 12,
                "hidden_size": 768,
                "intermediate_size": 3072,
                "num_heads": 12,
                "out_hidden_size": 1024,
            },
            **TIED,
        },
        **QWEN3_5,
    ),
    reader(
        "qwen3.5-4b",
        "Qwen/Qwen3.5-4B",
        4_539_265_536,
        summary="chat about an image, 24 of 32 layers with linear attention",
        config={
            "text_config": text(
                (248320, 2560, 32, 16, 4, 9216, 262144),
                rope_parameters=QWEN3_5_ROPE,
                **TIED,
            ),
            "vision_config": {**QWEN3_VL_VISION, "out_hidden_size": 2560},
            **TIED,
        },
        **QWEN3_5,
    ),
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
)
