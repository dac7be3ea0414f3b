"""Default configurations made whole: what their class leaves open and every checkpoint says.

Some defaults cannot be built: a size is ``None``, although it follows from others. What follows is filled in here, for
every type alike; what does not follow is declared in ``families.toml``.
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

    Raises:
        Exception: whatever the class raises, if it does not take its own values.
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
