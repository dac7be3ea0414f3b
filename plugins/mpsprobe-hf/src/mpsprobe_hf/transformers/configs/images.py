"""Images, videos and sounds in a text: the tokens that stand for them, and the width of their features."""

from __future__ import annotations

from typing import Any

from mpsprobe_hf.transformers.configs.repairs import parts

TOKENS = (
    ("image_token_id", "image_token_index"),
    ("video_token_id", "video_token_index"),
    ("audio_token_id", "audio_token_index"),
)
"""What configurations call each token."""


def with_image_tokens(config: Any) -> None:
    """Give texts a vocabulary with the tokens for media, as every checkpoint has and some defaults have not."""
    for part in parts(config):
        _with_image_token(part)


def _with_image_token(config: Any) -> None:
    text = config.get_text_config(decoder=True)
    if not isinstance(getattr(text, "vocab_size", None), int):
        return
    for names in TOKENS:
        name = next((one for one in names if hasattr(config, one)), None)
        if name is None:
            continue
        if getattr(config, name) is None:
            setattr(config, name, text.vocab_size)
        text.vocab_size = max(text.vocab_size, getattr(config, name) + 1)


def left_out(config: Any) -> dict[str, dict[str, Any]]:
    """The parts for images and sound that the class of ``config`` names and leaves out by default, as its arguments."""
    named = getattr(config, "sub_configs", {})
    return {name: {} for name in ("vision_config", "audio_config") if name in named and getattr(config, name) is None}


def with_one_width(config: Any) -> None:
    """Give features of images and sounds the width of the text, as every checkpoint has and some defaults have not."""
    text: Any = getattr(config, "text_config", None)
    if not hasattr(text, "hidden_size"):
        return
    for part in (getattr(config, "vision_config", None), getattr(config, "audio_config", None)):
        for name in ("out_hidden_size", "output_dim"):
            if hasattr(part, name):
                setattr(part, name, text.hidden_size)
