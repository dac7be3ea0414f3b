"""Forms of arguments: what is in one, and its shape in measures (``mpsprobe_hf.transformers.inputs.measures``)."""

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
BY_PATCH: tuple[Size, ...] = ("grid*batch", "patch_values")
"""The patches of all images as rows of a matrix."""


def tokens(*, with_: tuple[str, ...] = ()) -> tuple[Argument, ...]:
    """Token ids of a text."""
    return (Argument("tokens", ("batch", "seq"), "vocabulary", with_=with_),)


def mask(*, with_: tuple[str, ...] = ()) -> tuple[Argument, ...]:
    """What is padding in a text."""
    return (Argument("padding_mask", ("batch", "seq"), with_=with_),)


def floats(*shape: Size, with_: tuple[str, ...] = ()) -> tuple[Argument, ...]:
    """Floating-point numbers."""
    return (Argument("floats", shape, with_=with_),)


def flags(*shape: Size, with_: tuple[str, ...] = ()) -> tuple[Argument, ...]:
    """Booleans, all true."""
    return (Argument("flags", shape, with_=with_),)


def ones(*shape: Size, with_: tuple[str, ...] = ()) -> tuple[Argument, ...]:
    """Ones."""
    return (Argument("ones", shape, with_=with_),)


def integers(high: Size, *shape: Size, with_: tuple[str, ...] = ()) -> tuple[Argument, ...]:
    """Whole numbers below ``high``."""
    return (Argument("integers", shape, high, with_=with_),)
