"""Inputs made from their description, on torch's default device.

Values are a fixed function of the position, not random numbers: a run can be repeated, and making
inputs leaves torch's generators alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from mpsprobe_hf import forms
from mpsprobe_hf.sizes import Field, shape_of

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
    return KINDS[field.kind](field, shape_of(field, sizes), dtype)


def integers(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Integers spread over ``low … high - 1``, int64; ``settings["low"]`` is 0 by default."""
    count = math.prod(shape)
    low = field.settings.get("low", 0)
    # 7919 is a prime: neighbouring positions get ids that lie far apart, as those of a text do.
    spread: torch.Tensor = (torch.arange(count) * 7919 + 101) % (field.high - low) + low
    return spread.reshape(shape)


def tokens(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Token ids, the padding token where there is padding.

    Settings: ``pad``, the padding token; ``separator``, a token that ends each of ``separators`` parts of the text and
    stands nowhere else; ``leads``, ``(id, count)`` of each token that stands first,
    such as an image's, and nowhere else; those of ``padding_mask``.
    """
    ids = integers(field, shape, dtype)
    if "separator" in field.settings:
        _separate(
            ids, field, padding_mask(field, shape, dtype).sum(-1, keepdim=True) if "pad" in field.settings else None
        )
    if "pad" in field.settings:
        ids = torch.where(padding_mask(field, shape, dtype) == 1, ids, field.settings["pad"])
    start = 0
    for token, count in field.settings.get("leads", ()):
        ids[ids == token] = 0
        ids[:, start : start + count] = token
        start += count
    return ids


def _separate(ids: torch.Tensor, field: Field, lengths: torch.Tensor | None) -> None:
    token, parts = field.settings["separator"], field.settings["separators"]
    ids[ids == token] = (token + 1) % field.high
    if lengths is None:
        lengths = torch.full((*ids.shape[:-1], 1), ids.shape[-1])
    for part in range(1, parts + 1):
        ids.scatter_(-1, lengths * part // parts - 1, token)


def spans(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """0 for text, and 1, 2, … for the tokens of each of ``settings["leads"]``."""
    kinds = torch.zeros(shape, dtype=torch.int64)
    start = 0
    for number, (_, count) in enumerate(field.settings.get("leads", ()), 1):
        kinds[:, start : start + count] = number
        start += count
    return kinds


def padding_mask(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """1 for a token, 0 for padding: the first row is full, the last about half.

    Settings: ``keep``, tokens at the front that every row has.
    """
    batch, *within, length = shape
    keep = field.settings.get("keep", 0)
    lengths: torch.Tensor = length - torch.arange(batch).unsqueeze(1) * max(length - keep, 0) // (2 * batch)
    mask = torch.arange(length).unsqueeze(0).lt(lengths).to(torch.int64)
    return mask.reshape(batch, *[1] * len(within), length).expand(shape).clone()


def leading(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """1 for the first ``settings["keep"]`` tokens, those of an image, and 0 for text, int64."""
    return torch.arange(shape[1]).lt(field.settings["keep"]).to(torch.int64).repeat(shape[0], 1)


def token_labels(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """The token ids again, without the padding."""
    return torch.where(padding_mask(field, shape, dtype) == 1, integers(field, shape, dtype), IGNORED_LABEL)


def floats(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Numbers between -1 and 1 that look like noise."""
    return noise(shape, dtype)


def noise(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Normalised pixels and their like: numbers between -1 and 1."""
    return torch.sin(torch.arange(math.prod(shape), dtype=torch.float32) * 12.9898).reshape(shape).to(dtype)


def ones(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Ones, int64: a mask of images that all have the same size."""
    return torch.ones(shape, dtype=torch.int64)


def observed(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Ones, floating point: every value of the series was seen."""
    return torch.ones(shape, dtype=dtype)


def flags(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """True everywhere."""
    return torch.ones(shape, dtype=torch.bool)


def every_other(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """True at every other place of the last axis: a mask of what the model has to fill in."""
    return (torch.arange(shape[-1]) % 2 == 0).expand(shape).clone()


def constant(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    """``settings["value"]``, not a tensor."""
    return field.settings["value"]


def zeros(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """False everywhere: a mask of what is left out, which is nothing."""
    return torch.zeros(shape, dtype=torch.bool)


def rows(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """``settings["row"]`` for each sample, int64: such as the height and width of its image."""
    return torch.tensor([field.settings["row"]] * shape[0])


def places(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Column and row of each patch, int64: those of a grid with ``settings["row"]`` rows and columns."""
    rows_of, columns_of = field.settings["row"]
    grid = torch.stack(torch.meshgrid(torch.arange(columns_of), torch.arange(rows_of), indexing="xy"), dim=-1)
    return grid.reshape(-1, 2).expand(shape).clone()


def columns(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """TAPAS's token types ``(batch, seq, columns)``: ``settings["highs"]`` has one limit for each column."""
    parts = [integers(Field(field.name, "integers", shape[:-1], high), shape[:-1], dtype) for high in _highs(field)]
    return torch.stack(parts, dim=-1)


def _highs(field: Field) -> tuple[int, ...]:
    return tuple(field.settings["highs"])


def series(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    """One series for each sample: a list of tensors of shape ``shape[1:]``."""
    return list(floats(field, shape, dtype))


def boxes(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> list[dict[str, torch.Tensor]]:
    """Targets of object detection for ``(batch, objects)``: classes, and boxes as centre, width and height in 0 … 1.

    With ``(batch, objects, height, width)`` they have masks too.
    """
    batch, objects, *sides = shape
    box = torch.full((objects, 4), 0.25, dtype=dtype)
    box[:, :2] += torch.arange(objects, dtype=dtype).unsqueeze(1) / (4 * objects)
    labels = integers(field, (objects,), dtype)
    targets = [{"class_labels": labels.clone(), "boxes": box.clone()} for _ in range(batch)]
    for target, mask in zip(targets, mask_lists(field, shape, dtype) if sides else (), strict=False):
        target["masks"] = mask
    return targets


def class_lists(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    """One tensor of classes for each sample, ``(objects,)``."""
    return list(integers(field, shape, dtype))


def mask_lists(field: Field, shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    """One tensor of binary masks for each sample, ``(objects, height, width)``; object i covers the i-th band."""
    batch, objects, height, width = shape
    rows: torch.Tensor = torch.arange(height).reshape(1, height, 1) * objects // height
    mask = (rows == torch.arange(objects).reshape(objects, 1, 1)).expand(objects, height, width).to(dtype)
    return [mask.clone() for _ in range(batch)]


KINDS: dict[str, Maker] = {kind: globals()[kind] for kind in forms.KINDS}
