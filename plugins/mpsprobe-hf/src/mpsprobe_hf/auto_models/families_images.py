"""Corrections for models of images and video. The values are those of the checkpoint that the comment names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.auto_models.family import Family
from mpsprobe_hf.auto_models.forms import TEXT, Argument

CELLS = Argument("floats", ("grid_tokens*batch", "cell", "cell", "channels"), with_=TEXT)
"""Squares of the patches that become one token, the channels last."""
FOURFOLD: Mapping[str, int] = {"grid_height": 16, "grid_width": 16}
"""Two times, two by two patches are merged."""
SMOL: Mapping[str, Any] = {"image_size": 512, "patch_size": 16}

PICTURES: Mapping[str, Family] = {
    "aria": Family(measures={"height": 490, "width": 490}),
    "depth_pro": Family(measures={"height": 1536, "width": 1536}),  # apple/DepthPro-hf
    "gemma3": Family(config={"vision_config": {"image_size": 896, "patch_size": 14}}),  # google/gemma-3-4b-it
    "granite_docling": Family(arguments={"pixel_attention_mask": Argument("flags", ("batch", "images"))}),
    "inkling2": Family(arguments={"pixel_values": CELLS}),
    "inkling2_vision": Family(arguments={"pixel_values": CELLS}),
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
    "minicpmv4_6": Family(measures=FOURFOLD),
    "minicpmv4_7": Family(measures=FOURFOLD),
    "modernvbert": Family(config={"vision_config": SMOL}),  # ModernVBERT/modernvbert
    "ultravbert": Family(config={"vision_config": SMOL}),
    "seggpt": Family(measures={"height": 448}),  # the prompt stands above the image
    "ovis2": Family(config={"hidden_size": 4096}),  # that of its text model, as in every checkpoint
    "qwen2_vl": Family(config={"vision_config": {"hidden_size": 8192}}),  # Qwen/Qwen2-VL-72B-Instruct
    "t5gemma2": Family(config={"encoder": {"vision_config": {"image_size": 896, "patch_size": 14}}}),
}
