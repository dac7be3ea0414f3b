"""Inputs made from their description, on torch's default device.

Values are a fixed function of the position, not random numbers: a run can be repeated, and making
inputs leaves torch's generators alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from mpsprobe_hf.catalog.entry import Field

IGNORED_LABEL = -100
"""What ``torch.nn.functional.cross_entropy`` leaves out by default."""

Maker = Callable[[Field, tuple[int, ...], torch.dtype], Any]


def make(field: Field, sizes: Mapping[str, int], dtype: torch.dtype) -> Any:
    """The tensor (for a few kinds, a list) that ``field`` describes.

    Args:
        field: what to make.
        sizes: ``batch`` and ``seq``.
        dtype: of floating-point inputs.
    """
    shape = tuple(sizes[d] if isinstance(d, str) else d for d in field.shape)
    return KINDS[field.kind](field, shape, dtype)


def integers(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Whole numbers spread over ``0 … high - 1``, int64."""
    count = math.prod(shape)
    # 7919 is a prime: neighbouring positions get ids that lie far apart, as those of a text do.
    return ((torch.arange(count) * 7919 + 101) % max(field.high, 1)).reshape(shape)


def tokens(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Token ids; ``settings["lead"]`` is ``(id, count)`` of a token that stands first, such as an image's."""
    ids = integers(field, shape, dtype)
    if "lead" in field.settings:
        token, count = field.settings["lead"]
        ids = torch.where(ids == token, torch.zeros_like(ids), ids)
        ids[..., 1 : 1 + count] = token
    return ids


def padding_mask(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """1 for a token, 0 for padding: the first row is full, the last about half."""
    batch, length = shape
    lengths = length - torch.arange(batch).unsqueeze(1) * (length // 2) // batch
    positions = torch.arange(length).unsqueeze(0)
    if field.settings.get("left"):
        positions = length - 1 - positions
    return (positions < lengths).to(torch.int64)


def token_labels(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """The token ids again, without the padding."""
    return torch.where(padding_mask(field, shape, dtype) == 1, integers(field, shape, dtype), IGNORED_LABEL)


def floats(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Numbers between -1 and 1 that look like noise."""
    return torch.sin(torch.arange(math.prod(shape), dtype=torch.float32) * 12.9898).reshape(shape).to(dtype)


KINDS: dict[str, Maker] = {
    "integers": integers,
    "tokens": tokens,
    "padding_mask": padding_mask,
    "token_labels": token_labels,
    "floats": floats,
}
