"""Default configurations made whole: what their class leaves open and every checkpoint says.

Some defaults cannot be built: a size is ``None``, although it follows from others. What follows is filled in here, for
every type alike; what does not follow is declared in ``families.toml``. Backbones of timm are replaced where it is not
installed; images, videos and sounds in a text get the tokens that stand for them, and features of the text's width.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from mpsprobe_hf.forms import NOTHING
from mpsprobe_hf.transformers.inputs.rules import FAMILIES


def declared(config_class: type[Any]) -> dict[str, Any]:
    """What ``FAMILIES`` declares for a configuration of the class and those inside it, as arguments of the class."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    values: dict[str, Any] = dict(copy.deepcopy(FAMILIES.get(config_class.model_type, NOTHING).config))
    for name, part in getattr(config_class, "sub_configs", {}).items():
        default = getattr(config_class, "sub_configs_defaults", {}).get(name)
        model_type = getattr(default or part, "model_type", "") or _type_inside(config_class, name)
        inside = declared(CONFIG_MAPPING[model_type]) if model_type in CONFIG_MAPPING else {}
        if inside and not getattr(default, "init_kwargs", None):  # else the outer class has said what its part is
            values[name] = {**inside, **values.get(name, {})}
    return values


def _type_inside(config_class: type[Any], name: str) -> str:
    """The model type of the part ``name`` of a default configuration; empty where there is none."""
    with suppress(Exception):
        return str(getattr(getattr(config_class(), name), "model_type", ""))
    return ""


def repair(config: Any) -> list[str]:
    """Fill in what follows from other values, in ``config`` and those inside it; returns what was said."""
    said = []
    for part in parts(config):
        values = vars(part)  # an attribute may differ by layer, and asking for it raises
        heads, hidden = values.get("num_attention_heads"), values.get("hidden_size")
        if not isinstance(heads, int) or not isinstance(hidden, int):
            continue
        follows = {"head_dim": hidden // heads, "num_key_value_heads": heads}
        for name, value in follows.items():
            if values.get(name, value) is None:
                setattr(part, name, value)
                said.append(f"{name} = {value}")
    return said


def as_read(config: Any) -> Any:
    """``config`` as its class reads it from a checkpoint: JSON has lists where defaults have tuples.

    Raises Exception: whatever the class raises, if it does not take its own values.
    """
    values = json.loads(config.to_json_string(use_diff=False))
    return type(config).from_dict(values)


def part_for(model_class: type[Any], config: Any) -> Any:
    """What ``model_class`` is made of: ``config``, a configuration inside it, or one around it (a head on any text)."""
    wanted = getattr(model_class, "config_class", None)
    if wanted is None or isinstance(config, wanted):
        return config
    inside = next((part for part in parts(config) if isinstance(part, wanted)), None)
    if inside is None and "text_config" in {*wanted.sub_configs, *getattr(wanted, "sub_configs_defaults", ())}:
        text = config.get_text_config()
        return wanted(text_config=text, hidden_size=text.hidden_size)
    return config if inside is None else inside


def parts(config: Any) -> Iterator[Any]:
    """``config`` and every configuration inside it."""
    yield config
    for name in getattr(config, "sub_configs", {}):
        part = getattr(config, name, None)
        if part is not None and not isinstance(part, Mapping):
            yield from parts(part)


INSTEAD: Mapping[str, tuple[str, int, Mapping[str, Any]]] = {
    "resnet": ("resnet", 0, {}),
    "swin": ("swin", 1, {"apply_layernorm_after_vision_backbone": False}),  # that of transformers does it itself
}
"""How names in timm begin → the model type in transformers, by how much its stages are numbered higher, and what
differs in the configuration around it."""


def timm_is_installed() -> bool:
    """Whether transformers finds it, and what it needs."""
    from transformers.utils.import_utils import is_timm_available

    return bool(is_timm_available())


def without_timm(config: Any) -> Iterator[str]:
    """Put transformers' own backbones into ``config`` for those of timm, unless timm is installed; says which."""
    from transformers import AutoConfig

    if timm_is_installed():
        return
    for part in (config, *(getattr(config, name, None) for name in getattr(config, "sub_configs", {}))):
        backbone: Any = getattr(part, "backbone_config", None)
        if getattr(backbone, "model_type", "") != "timm_backbone":
            continue
        name = str(backbone.backbone)
        for begins, (model_type, higher, around) in INSTEAD.items():
            if name.startswith(begins):
                stages = [stage + higher for stage in backbone.out_indices]
                part.backbone_config = AutoConfig.for_model(
                    model_type, out_indices=stages, num_channels=backbone.num_channels
                )
                for key in around.keys() & vars(part).keys():
                    setattr(part, key, around[key])
                yield f"with transformers' own {model_type} as its backbone: timm, which has '{name}', is not installed"


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
        name = next((name for name in names if hasattr(config, name)), None)
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
