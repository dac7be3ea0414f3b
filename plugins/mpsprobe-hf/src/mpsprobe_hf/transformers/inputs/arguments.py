"""What the arguments of ``forward`` are, by their names, which mean the same in all of transformers.

A shape is made of numbers, ``batch``, ``seq`` and measures (``measures.py``). An argument may have several forms; the
first whose ``if_`` the model has an argument of is taken.
"""

from __future__ import annotations

from collections.abc import Mapping

from mpsprobe_hf.transformers.inputs.arguments_images import IMAGES
from mpsprobe_hf.transformers.inputs.arguments_sequences import SERIES, SOUNDS
from mpsprobe_hf.transformers.inputs.forms import (
    IMAGE,
    PIXELS,
    TEXT,
    Argument,
    floats,
    integers,
    mask,
    tokens,
)

ARGUMENTS: Mapping[str, tuple[Argument, ...]] = {
    # text
    "input_ids": tokens(with_=("image_embeds_position_mask", "qformer_input_ids")),
    "attention_mask": mask(with_=TEXT),
    "inputs": (
        Argument("floats", IMAGE, if_="pixel_values"),
        Argument("tokens", ("batch", "seq"), "vocabulary", if_="input_ids"),
        Argument("floats", ("batch", "samples"), if_="input_values"),
        Argument("floats", ("batch", "seq", "hidden")),
    ),
    "inputs_embeds": floats("batch", "seq", "hidden"),
    "decoder_input_ids": tokens(with_=("encoder",)),
    "token_type_ids": (Argument("spans", ("batch", "seq")),),
    "mm_token_type_ids": (Argument("spans", ("batch", "seq"), with_=PIXELS),),
    "bbox": integers(1, "batch", "seq", 4, with_=TEXT),
    "encoder_hidden_states": floats("batch", "patches", "vision_hidden"),
    "question_positions": integers(8, "batch", "question_tokens"),
    "query_embeds": floats("batch", "queries", "hidden"),
    **IMAGES,
    **SOUNDS,
    **SERIES,
}
"""Name → its forms, the special ones first."""

PLACEHOLDERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "input_ids": (("question_token_id",), "question_tokens"),
    "pixel_values": (("image_token_id", "image_token_index"), "image_tokens"),
    "image_pixel_values": (("image_token_id", "image_token_index"), "image_tokens"),
    "pixel_values_videos": (("video_token_id", "video_token_index"), "video_tokens"),
    "input_features": (("audio_token_id", "audio_token_index"), "audio_tokens"),
    "audio_input_features": (("audio_token_id", "audio_token_index"), "audio_tokens"),
    "input_values": (("audio_token_id", "audio_token_index"), "audio_tokens"),
}
"""Argument → what configurations call the token that stands for it in a text, and the measure of how many there are."""
