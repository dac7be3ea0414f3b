"""Sizes that inputs are made of (pixels, frames, tokens of an image, …), read from a configuration under many names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mpsprobe_hf.transformers.inputs.rules import MEASURES, PARTS

SIDE = 224
"""Pixels of an image where the configuration names none; convolutional models take any size."""
SIDES = ("image_size", "input_size", "img_size", "train_image_size")
SAMPLES = 16_000
"""One second of sound at 16 kHz."""
FEATURE_FRAMES = 256
"""Frames of a spectrogram where a model takes any number."""


def first(configs: Iterable[Any], *names: str) -> Any:
    """The first attribute of that name that one of the configurations has and that is not ``None``."""
    for config in configs:
        for name in names:
            value = getattr(config, name, None)
            if value is not None:
                return value
    return None


def pair(value: Any) -> tuple[int, int] | None:
    """``value`` as height and width: a number, two of them, or a dict with those keys."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value, value
    if isinstance(value, (list, tuple)) and len(value) >= 2 and all(isinstance(size, int) for size in value[:2]):
        return value[-2], value[-1]
    if isinstance(value, (list, tuple)) and len(value) == 1:
        return pair(value[0])
    if isinstance(value, dict) and {"height", "width"} <= set(value):
        return value["height"], value["width"]
    return None


def whole(value: Any) -> int | None:
    """A positive number; of a pair, its last."""
    sides = pair(value)
    return sides[1] if sides is not None and sides[1] > 0 else None


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of a configuration, by name."""

    config: Any  # where they are read
    # Those that are known better: declared for the model type, or said by the model's own error.
    known: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> int:
        if name in self.known:
            return self.known[name]
        if name in COMPUTED:
            return COMPUTED[name](self)
        part, names, otherwise = MEASURES[name]
        return whole(first(self.parts(part), *names)) or otherwise

    def __contains__(self, name: str) -> bool:
        return name in self.known or name in COMPUTED or name in MEASURES

    def says(self, name: str) -> bool:
        """Whether the configuration has the measure ``name`` of ``measures.toml``."""
        part, names, _ = MEASURES[name]
        return name in self.known or first(self.parts(part), *names) is not None

    def knowing(self, **known: int) -> Measures:
        """The same with more that is known."""
        return replace(self, known={**self.known, **known})

    def parts(self, part: str) -> list[Any]:
        """The configurations that may hold sizes of ``part``, the most specific first."""
        found = [getattr(self.config, name, None) for name in PARTS[part]]
        inside = [getattr(outer, name, None) for outer in found if outer is not None for name in PARTS[part]]
        return [config for config in (*inside, *found, self.config) if config is not None]

    def side(self, axis: int) -> int:
        """Height (0) or width (1) of an image, in pixels."""
        sides = pair(first(self.parts("vision"), *SIDES))
        side = sides[axis] if sides else SIDE
        merged = self["patch"] * self["shuffle"]
        return side - side % merged if hasattr(self.config, "text_config") and side > merged else side

    def tiled(self, axis: int) -> int:
        """Height (0) or width (1) of an image that is cut into tiles."""
        sides = pair(first(self.parts("own"), "image_grid_pinpoints")[0]) if self.says("pinpoints") else None
        return sides[axis] if sides else self.side(axis)

    def tiles(self) -> int:
        """Tiles of an image; where they are cut out of it, with the whole image as one more."""
        if not self.says("pinpoints"):
            return self["max_tiles"]
        return (self.tiled(0) // self.side(0)) * (self.tiled(1) // self.side(1)) + 1

    def grid_side(self, axis: int) -> int:
        """Patches along one axis, a multiple of those that are merged into one token."""
        merged = self["patch"] * self["merge"]
        side = min(self["height" if axis == 0 else "width"], SIDE)
        return max(side // merged, 1) * self["merge"]


COMPUTED: Mapping[str, Callable[[Measures], int]] = {
    "height": lambda m: m.side(0),
    "width": lambda m: m.side(1),
    "grid_height": lambda m: m.grid_side(0),
    "grid_width": lambda m: m.grid_side(1),
    "grid": lambda m: m["grid_height"] * m["grid_width"],
    "grid_tokens": lambda m: m["grid"] // m["merge"] ** 2,
    "patches": lambda m: (m["height"] // m["patch"]) * (m["width"] // m["patch"]),
    "patch_values": lambda m: m["channels"] * m["temporal_patch"] * m["patch"] ** 2,
    "image_tokens": lambda m: _image_tokens(m),
    "audio_tokens": lambda m: 1,
    "question_tokens": lambda m: 1,
    "images": lambda m: 1,
    "named": lambda m: 2,
    "cell": lambda m: m["patch"] * m["merge"],
    "strip": lambda m: m["grid"] * m["patch"],
    "flat_values": lambda m: m["patch_values"] + 2,
    "tiled_height": lambda m: m.tiled(0),
    "tiled_width": lambda m: m.tiled(1),
    "tiles": lambda m: m.tiles(),
    "samples": lambda m: SAMPLES,
    "crop": lambda m: 4 * (first(m.parts("audio"), "spec_size") or FEATURE_FRAMES),
    "codes": lambda m: 32,
    "context_hidden": lambda m: m["hidden"] * len(getattr(m.config, "target_layer_ids", None) or [0]),
    "frames": lambda m: FEATURE_FRAMES,
    "label_frames": lambda m: _label_frames(m),
    "double_positions": lambda m: 2 * m["sound_positions"],
    "past": lambda m: m["context"] + max(getattr(m.config, "lags_sequence", None) or [0]),
}
"""Measures that follow from others."""


def _image_tokens(m: Measures) -> int:
    names = ("image_seq_length", "mm_tokens_per_image", "num_query_tokens", "num_image_tokens", "image_seq_len")
    count = first([m.config], *names)
    return count if isinstance(count, int) and count > 0 else math.ceil(m["patches"] / m["merge"] ** 2)


def _label_frames(m: Measures) -> int:
    """Frames that the convolutions of a model of sound leave of its samples; without convolutions, those it gets."""
    kernels, strides = (first(m.parts("audio"), name) for name in ("conv_kernel", "conv_stride"))
    if not kernels or not strides:
        return m["frames"]
    length = m["samples"]
    for kernel, stride in zip(kernels, strides, strict=True):
        length = (length - kernel) // stride + 1
    return length
