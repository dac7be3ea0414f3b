"""Images, videos and sounds in a text: the tokens that stand for them."""

from __future__ import annotations

from typing import Any

TOKENS = (
    ("image_token_id", "image_token_index"),
    ("video_token_id", "video_token_index"),
    ("audio_token_id", "audio_token_index"),
)
"""What configurations call each token."""


def with_image_token(config: Any) -> None:
    """Give ``config`` a vocabulary that has its tokens for media, as every checkpoint's has and some defaults' have not."""
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
