"""The inputs that many models share, as tokenizers and image processors make them."""

from __future__ import annotations

from typing import Any

from mpsprobe_hf.catalog.entry import Field

EVERY_LAYER = ("trained without layer dropout (0.1 in the checkpoint), so that every layer runs in every step",)


def tokens(vocabulary: int, name: str = "input_ids", **settings: Any) -> Field:
    """Token ids, int64 ``(batch, seq)``."""
    return Field(name, "tokens", ("batch", "seq"), vocabulary, settings)


def padding_mask(name: str = "attention_mask", *, left: bool = False) -> Field:
    """1 for a token and 0 for padding, int64 ``(batch, seq)``: rows of a batch differ in length, the first is full.

    Args:
        name: the argument.
        left: pad before the text, as batched generation needs it, instead of after.
    """
    return Field(name, "padding_mask", ("batch", "seq"), settings={"left": left})


def token_labels(vocabulary: int, name: str = "labels") -> Field:
    """A label for each token, -100 where there is padding, int64 ``(batch, seq)``."""
    return Field(name, "token_labels", ("batch", "seq"), vocabulary)


def zeros(name: str) -> Field:
    """Zeros, int64 ``(batch, seq)``; the token types of a single text."""
    return Field(name, "integers", ("batch", "seq"), 1)


def classes(count: int, name: str = "labels") -> Field:
    """A class for each sample, int64 ``(batch,)``."""
    return Field(name, "integers", ("batch",), count)


def image(height: int, width: int | None = None, name: str = "pixel_values") -> Field:
    """Normalised pixels, floating point ``(batch, 3, height, width)``."""
    return Field(name, "floats", ("batch", 3, height, width or height))
