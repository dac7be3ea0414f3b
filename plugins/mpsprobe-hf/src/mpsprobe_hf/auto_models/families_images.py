"""Corrections for models of images and video. The values are those of the checkpoint that the comment names."""

from __future__ import annotations

from collections.abc import Mapping

from mpsprobe_hf.auto_models.family import Family
from mpsprobe_hf.auto_models.forms import Argument

PICTURES: Mapping[str, Family] = {
    "aria": Family(measures={"height": 490, "width": 490}),
    "depth_pro": Family(measures={"height": 1536, "width": 1536}),  # apple/DepthPro-hf
    "gemma3": Family(config={"vision_config": {"image_size": 896, "patch_size": 14}}),  # google/gemma-3-4b-it
    "granite_docling": Family(arguments={"pixel_attention_mask": Argument("flags", ("batch", "images"))}),
    "inkling2": Family(
        arguments={"pixel_values": Argument("floats", ("grid_tokens*batch", "cell", "cell", "channels"))}
    ),
    "llama4": Family(
        config={
            "vision_config": {
                "hidden_size": 1408,
                "image_size": 336,
                "projector_input_dim": 4096,
                "vision_output_dim": 4096,
            }
        }
    ),  # meta-llama/Llama-4-Scout-17B-16E
    "ovis2": Family(config={"hidden_size": 4096}),  # that of its text model, as in every checkpoint
    "qwen2_vl": Family(config={"vision_config": {"hidden_size": 8192}}),  # Qwen/Qwen2-VL-72B-Instruct
    "t5gemma2": Family(config={"encoder": {"vision_config": {"image_size": 896, "patch_size": 14}}}),
}
