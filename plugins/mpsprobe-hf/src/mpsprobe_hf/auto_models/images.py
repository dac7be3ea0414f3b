"""Images in a text: the token that stands for them, and how many of it one image takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

TOKENS = ("image_token_id", "image_token_index")
"""What configurations call the token."""
INPUTS = ("pixel_values", "image_sizes", "pixel_attention_mask")
"""Arguments of ``forward`` that belong to an image."""


def with_image_token(config: Any) -> None:
    """Give ``config`` a vocabulary that has its image token, as every checkpoint's has and some defaults' have not."""
    text = config.get_text_config(decoder=True)
    name = next((one for one in TOKENS if hasattr(config, one)), None)
    if name is None or not isinstance(getattr(text, "vocab_size", None), int):
        return
    if getattr(config, name) is None:
        setattr(config, name, text.vocab_size)
    text.vocab_size = max(text.vocab_size, getattr(config, name) + 1)


def features_of_images(model: Any, inputs: Mapping[str, Any]) -> int | None:
    """Vectors that ``model`` puts in the place of all images of ``inputs``; None where it makes none of them.

    Raises:
        Exception: whatever the model raises, if the inputs do not fit it.
    """
    import torch

    features = getattr(model, "get_image_features", None)
    if features is None:
        return None
    with torch.no_grad():
        made = features(**{name: inputs[name] for name in INPUTS if name in inputs})
    made = getattr(made, "pooler_output", made)
    parts = made if isinstance(made, (list, tuple)) else [made]
    return sum(int(math.prod(part.shape[:-1])) for part in parts)
