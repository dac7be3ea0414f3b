"""Images in a text: the token that stands for them."""

from __future__ import annotations

from typing import Any

TOKENS = ("image_token_id", "image_token_index")
"""What configurations call the token."""


def with_image_token(config: Any) -> None:
    """Give ``config`` a vocabulary that has its image token, as every checkpoint's has and some defaults' have not."""
    text = config.get_text_config(decoder=True)
    name = next((one for one in TOKENS if hasattr(config, one)), None)
    if name is None or not isinstance(getattr(text, "vocab_size", None), int):
        return
    if getattr(config, name) is None:
        setattr(config, name, text.vocab_size)
    text.vocab_size = max(text.vocab_size, getattr(config, name) + 1)
