"""What the arguments of ``forward`` are, by their names, which mean the same in all of transformers.

A shape is made of numbers, ``batch``, ``seq`` and measures (``mpsprobe_hf.auto_models.measures``). An argument may have
several forms; the first whose ``if_`` the model has an argument of is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Size = int | str


@dataclass(frozen=True, slots=True)
class Argument:
    """One form of an argument.

    Attributes:
        kind: what is in it; a function of that name in ``mpsprobe_hf.tensors``.
        shape: of numbers, ``batch``, ``seq``, measures, and ``MEASURE*batch``.
        high: for whole numbers, one more than the largest: a number or a measure.
        settings: of the kind; words in a tuple are measures.
        if_: another argument of the model, or ``says MEASURE``: whether its configuration has that.
        with_: given whenever one of these is; otherwise only if the model requires it or misses it.
    """

    kind: str
    shape: tuple[Size, ...]
    high: Size = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    if_: str = ""
    with_: tuple[str, ...] = ()


TEXT = ("input_ids",)
PIXELS = ("pixel_values", "pixel_values_videos")
IMAGE: tuple[Size, ...] = ("batch", "channels", "height", "width")
GRID: tuple[Size, ...] = (1, "grid_height", "grid_width")


def _tokens(*, with_: tuple[str, ...] = ()) -> tuple[Argument, ...]:
    return (Argument("tokens", ("batch", "seq"), "vocabulary", with_=with_),)


def _mask(*, with_: tuple[str, ...] = ()) -> tuple[Argument, ...]:
    return (Argument("padding_mask", ("batch", "seq"), with_=with_),)


def _floats(*shape: Size, with_: tuple[str, ...] = ()) -> tuple[Argument, ...]:
    return (Argument("floats", shape, with_=with_),)


def _flags(*shape: Size, with_: tuple[str, ...] = ()) -> tuple[Argument, ...]:
    return (Argument("flags", shape, with_=with_),)


def _integers(high: Size, *shape: Size, with_: tuple[str, ...] = ()) -> tuple[Argument, ...]:
    return (Argument("integers", shape, high, with_=with_),)


ARGUMENTS: Mapping[str, tuple[Argument, ...]] = {
    # text
    "input_ids": _tokens(),
    "attention_mask": _mask(with_=TEXT),
    "inputs_embeds": _floats("batch", "seq", "hidden"),
    "decoder_input_ids": _tokens(with_=("encoder",)),
    "token_type_ids": (Argument("spans", ("batch", "seq")),),
    "mm_token_type_ids": (Argument("spans", ("batch", "seq"), with_=PIXELS),),
    "bbox": _integers(1, "batch", "seq", 4, with_=TEXT),
    "encoder_hidden_states": _floats("batch", "patches", "vision_hidden"),
    "query_embeds": _floats("batch", "queries", "hidden"),
    "qformer_input_ids": _tokens(),
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
    "bool_masked_pos": _flags("batch", "patches"),
    "pixel_values_videos": (
        Argument("floats", ("grid*batch", "patch_values"), if_="video_grid_thw"),
        Argument("floats", ("batch", "clip", *IMAGE[1:])),
    ),
    "high_res_pixel_values": _floats("batch", "channels", 1024, 1024),
    # sound
    "input_features": (
        Argument("floats", ("batch", "mels", "double_positions"), if_="says sound_positions", with_=TEXT),
        Argument("floats", ("batch", "frames", "feature_width"), with_=TEXT),
    ),
    "input_features_mask": _flags("batch", "frames", with_=("input_features",)),
    "input_values": (
        Argument("floats", ("batch", "spectrogram", "mels"), if_="says spectrogram"),
        Argument("floats", ("batch", 1, "samples"), if_="says codebook"),
        Argument("floats", ("batch", "samples")),
    ),
    "audio_mel": _floats("batch", "frames", "feature_width"),
    "audio_mel_mask": (Argument("zeros", ("batch", "frames")),),
    # series
    "past_values": (
        Argument("floats", ("batch", "past"), if_="past_time_features"),
        Argument("series", ("batch", "context"), if_="freq"),
        Argument("floats", ("batch", "context", "variates"), if_="says variates"),
        Argument("floats", ("batch", "context")),
    ),
    "past_time_features": _floats("batch", "past", "time_features"),
    "past_observed_mask": (Argument("observed", ("batch", "past"), with_=("past_time_features",)),),
    "future_values": _floats("batch", "horizon", with_=("past_time_features",)),
    "future_time_features": _floats("batch", "horizon", "time_features", with_=("past_time_features",)),
    "static_categorical_features": _integers(1, "batch", "categories", with_=("past_time_features",)),
    "states": _floats("batch", "seq", "state"),
    "actions": _floats("batch", "seq", "action", with_=("states",)),
    "rewards": _floats("batch", "seq", 1, with_=("states",)),
    "returns_to_go": _floats("batch", "seq", 1, with_=("states",)),
    "timesteps": _integers(64, "batch", "seq", with_=("states",)),
}
"""Name → its forms, the special ones first."""

PLACEHOLDERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "pixel_values": (("image_token_id", "image_token_index"), "image_tokens"),
    "pixel_values_videos": (("video_token_id", "video_token_index"), "video_tokens"),
    "input_features": (("audio_token_id", "audio_token_index"), "audio_tokens"),
    "input_values": (("audio_token_id", "audio_token_index"), "audio_tokens"),
}
"""Argument → what configurations call the token that stands for it in a text, and the measure of how many there are."""
