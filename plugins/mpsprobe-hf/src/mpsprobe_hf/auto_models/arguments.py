"""What the arguments of ``forward`` are, by their names, which mean the same in all of transformers.

A shape is made of numbers, ``batch``, ``seq`` and measures (``mpsprobe_hf.auto_models.measures``). An argument may have
several forms; the first whose ``if_`` the model has an argument of is taken.
"""

from __future__ import annotations

from collections.abc import Mapping

from mpsprobe_hf.auto_models.arguments_sequences import SERIES, SOUNDS
from mpsprobe_hf.auto_models.forms import (
    GRID,
    IMAGE,
    PIXELS,
    TEXT,
    Argument,
    flags,
    floats,
    integers,
    mask,
    tokens,
)

ARGUMENTS: Mapping[str, tuple[Argument, ...]] = {
    # text
    "input_ids": tokens(),
    "attention_mask": mask(with_=TEXT),
    "inputs_embeds": floats("batch", "seq", "hidden"),
    "decoder_input_ids": tokens(with_=("encoder",)),
    "token_type_ids": (Argument("spans", ("batch", "seq")),),
    "mm_token_type_ids": (Argument("spans", ("batch", "seq"), with_=PIXELS),),
    "bbox": integers(1, "batch", "seq", 4, with_=TEXT),
    "encoder_hidden_states": floats("batch", "patches", "vision_hidden"),
    "query_embeds": floats("batch", "queries", "hidden"),
    "qformer_input_ids": tokens(),
    # images
    "pixel_values": (
        Argument("floats", ("grid*batch", "patch_values"), if_="image_grid_thw", with_=TEXT),
        Argument("floats", ("grid*batch", "patch_values"), if_="grid_thw"),
        Argument("floats", ("batch", "grid", "patch_values"), if_="spatial_shapes", with_=TEXT),
        Argument("floats", ("batch", "images", *IMAGE[1:]), if_="pixel_attention_mask", with_=TEXT),
        Argument("floats", ("batch", "clip", *IMAGE[1:]), if_="says clip", with_=TEXT),
        Argument("floats", IMAGE, with_=TEXT),
    ),
    "image_grid_thw": (Argument("rows", ("batch", 3), settings={"row": GRID}, with_=("pixel_values",)),),
    "grid_thw": (Argument("rows", ("batch", 3), settings={"row": GRID}),),
    "merge_sizes": (Argument("rows", ("batch",), settings={"row": "merge"}),),
    "hidden_states": (Argument("floats", ("grid*batch", "patch_values"), if_="grid_thw"),),
    "spatial_shapes": (
        Argument("rows", ("batch", 2), settings={"row": ("grid_height", "grid_width")}, with_=("pixel_values",)),
    ),
    "pixel_attention_mask": (
        Argument("ones", ("batch", "grid"), if_="spatial_shapes", with_=("pixel_values",)),
        Argument("flags", ("batch", "images", "height", "width")),
    ),
    "pixel_mask": (Argument("ones", ("batch", "height", "width")),),
    "image_sizes": (Argument("rows", ("batch", 2), settings={"row": ("height", "width")}, with_=("pixel_values",)),),
    "bool_masked_pos": flags("batch", "patches"),
    "pixel_values_videos": (
        Argument("floats", ("grid*batch", "patch_values"), if_="video_grid_thw"),
        Argument("floats", ("batch", "clip", *IMAGE[1:])),
    ),
    "high_res_pixel_values": floats("batch", "channels", 1024, 1024),
    **SOUNDS,
    **SERIES,
}
"""Name → its forms, the special ones first."""

PLACEHOLDERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "pixel_values": (("image_token_id", "image_token_index"), "image_tokens"),
    "pixel_values_videos": (("video_token_id", "video_token_index"), "video_tokens"),
    "input_features": (("audio_token_id", "audio_token_index"), "audio_tokens"),
    "audio_input_features": (("audio_token_id", "audio_token_index"), "audio_tokens"),
    "input_values": (("audio_token_id", "audio_token_index"), "audio_tokens"),
}
"""Argument → what configurations call the token that stands for it in a text, and the measure of how many there are."""
