"""Qwen's models that read images, which are cut into patches: one row of them for the whole batch."""

from __future__ import annotations

from typing import Any

from mpsprobe_hf.catalog.entry import Field
from mpsprobe_hf.catalog.vision_language import TIED, reader, text


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
)
