"""What a transformers model class says about its inputs: its ``forward``, its configuration."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

BACKBONE_SIDE = 224
"""Pixels of an image where the configuration names none; convolutional models take any size."""


def pair(value: Any) -> tuple[int, int] | None:
    """``value`` as height and width: a number, two of them, or a dict with those keys."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value, value
    if isinstance(value, (list, tuple)) and len(value) >= 2 and all(isinstance(one, int) for one in value[:2]):
        return value[-2], value[-1]
    if isinstance(value, (list, tuple)) and len(value) == 1:
        return pair(value[0])
    if isinstance(value, dict) and {"height", "width"} <= set(value):
        return value["height"], value["width"]
    return None


def first(configs: Iterable[Any], *names: str) -> Any:
    """The first attribute of that name that one of the configurations has and that is not ``None``."""
    for config in configs:
        for name in names:
            value = getattr(config, name, None)
            if value is not None:
                return value
    return None


@dataclass(frozen=True, slots=True)
class Signature:
    """A model class with its configuration, as far as inputs depend on them.

    Attributes:
        model_class: the class.
        config: its configuration.
        parameters: the arguments of ``forward`` that can be given by name.
        required: those of them without a default.
        image_features: how many tokens stand for an image, where that is known of the model itself.
    """

    model_class: type[Any]
    config: Any
    parameters: frozenset[str]
    required: frozenset[str]
    image_features: int | None = None

    @classmethod
    def of(cls, model_class: type[Any], config: Any) -> Signature:
        """Read ``model_class.forward``."""
        found = [
            one
            for one in inspect.signature(model_class.forward).parameters.values()
            if one.name != "self" and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        ]
        required = frozenset(one.name for one in found if one.default is one.empty)
        return cls(model_class, config, frozenset(one.name for one in found), required)

    @property
    def main(self) -> str:
        """The argument that the class itself calls its main input."""
        return str(getattr(self.model_class, "main_input_name", "input_ids"))

    @property
    def name(self) -> str:
        """Of the class."""
        return self.model_class.__name__

    def _sub(self, *names: str) -> Any:
        return first([self.config], *names)

    @property
    def text(self) -> list[Any]:
        """Configurations that may hold sizes of text, the most specific first."""
        nested = self._sub("text_config", "text_encoder_config", "decoder", "text_encoder", "llm_config")
        thinker = self._sub("thinker_config")
        found = [nested, first([thinker], "text_config") if thinker is not None else None, self.config]
        return [one for one in found if one is not None]

    @property
    def vision(self) -> list[Any]:
        """Configurations that may hold sizes of images, the most specific first."""
        found = [self._sub("vision_config", "image_config", "encoder"), self.config, self._sub("backbone_config")]
        return [one for one in found if one is not None]

    @property
    def audio(self) -> list[Any]:
        """Configurations that may hold sizes of sound, the most specific first."""
        found = [self._sub("audio_config", "audio_encoder_config", "encoder_config", "encoder"), self.config]
        return [one for one in found if one is not None]

    @property
    def vocabulary(self) -> int | None:
        """Token ids of the text part; ``None`` if there is none."""
        value = first(self.text, "vocab_size")
        return value if isinstance(value, int) and value > 0 else None

    @property
    def longest(self) -> int:
        """Tokens that positions are stored for; 0 for no limit."""
        names = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "context_length")
        found = [value for value in (first([config], *names) for config in self.text) if isinstance(value, int)]
        return max(found[0], 0) if found else 0

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        size = pair(first(self.vision, "image_size", "input_size", "img_size"))
        return size or (BACKBONE_SIDE, BACKBONE_SIDE)

    @property
    def channels(self) -> int:
        """Of an image."""
        value = first(self.vision, "num_channels", "in_channels", "in_chans", "num_input_channels")
        return value if isinstance(value, int) else 3

    @property
    def needs_image_sizes(self) -> bool:
        """Whether the model needs the height and width of each image, since it cuts it or has no own size."""
        own = getattr(self.model_class, "get_image_features", None)
        size = inspect.signature(own).parameters.get("image_sizes") if own is not None else None
        return size is not None and size.default is size.empty and "image_sizes" in self.parameters

    @property
    def image_token(self) -> tuple[int, int] | None:
        """``(id, count)`` of the tokens that stand for an image; ``None`` where text has none."""
        token = first([self.config], "image_token_id", "image_token_index")
        if not isinstance(token, int):
            return None
        if self.image_features is not None:
            return token, self.image_features
        count = first([self.config], "image_seq_length", "mm_tokens_per_image", "num_query_tokens", "num_image_tokens")
        if isinstance(count, int):
            return token, count
        patch = pair(first(self.vision, "patch_size"))
        if patch is None:
            return None
        height, width = self.image_size
        return token, (height // patch[0]) * (width // patch[1])
