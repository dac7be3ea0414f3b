"""``--size small``: a configuration with few layers, and at least one of each kind that it has.

A configuration counts its layers in one number (``num_hidden_layers``), and says things about them in lists: one item
for each layer (``layer_types``), or the numbers of some layers (``out_indices``). All of it is cut down together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

COUNT = re.compile(r"(^|_)(n_layers?|num_layers|num_[a-z_]*layers|[a-z_]+_layers|n_blocks|num_blocks|depth)$")
"""Names of numbers of layers."""
NOT_COUNTS = re.compile(
    r"conv|feat|share|skip|mlp_only|aux|adapter|dense_layers|input|output|proj|fusion|predict|window"
)
"""Parts of names that look like one, and shape what stands between the layers."""
DEPTHS = re.compile(r"(^|_)(depths?|layers_per_stage|num_layers|layers)$")
"""Names of lists of such numbers, one for each stage."""
INDICES = re.compile(r"(indices|indexes|_layers|layer_ids|layer_idx|layers_idx)$")
"""Names of lists of numbers of layers."""
FIRST = ("first_k_dense_replace", "num_dense_layers", "dense_layers")
"""Numbers of the layer from which on another kind follows."""
EVERY = ("decoder_sparse_step", "attn_layer_period", "expert_layer_period", "full_attention_interval", "moe_layer_freq")
"""Of how many layers one is of another kind."""
STAGES = ("stage_names", "out_features")
"""Written anew by configurations of backbones, from the number of layers and ``out_indices``."""
FEW = 2


def small(values: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` of a configuration (``to_dict()``) with few layers; those of configurations inside too."""
    counts = {key: value for key, value in values.items() if _is_count(key, value)}
    # A backbone calls its embeddings "stem", and each layer a stage.
    if any(len(values.get("stage_names") or ()) == count + 1 for count in counts.values()):
        values = {key: value for key, value in values.items() if key not in STAGES}
    kept = {key: _kept(value, values) for key, value in counts.items()}
    return {key: _cut(key, value, counts, kept) for key, value in values.items()}


def _is_count(key: str, value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool) and value > FEW
    return whole and COUNT.search(key) is not None and not NOT_COUNTS.search(key) and key not in FIRST


def _kept(count: int, values: Mapping[str, Any]) -> list[int]:
    """The layers of ``count`` that stay: the first ones, the first of each kind, and those that are named."""
    chosen = set(range(min(FEW, count)))
    for key, value in values.items():
        if _by_layer(value, count):
            chosen |= {int(one) for one in value}
        elif isinstance(value, (list, tuple)) and value:
            if len(value) == count and all(isinstance(one, (str, int)) for one in value):
                chosen |= {list(value).index(one) for one in value}
            elif INDICES.search(key) and all(_is_layer(one, count) for one in value):
                # Hidden states have the embeddings in front: the last of them is that of the last layer.
                chosen |= {min(one, count - 1) for one in value}
        elif key in FIRST and isinstance(value, int) and 0 < value < count:
            chosen |= {0, value}
        elif key in EVERY and isinstance(value, int) and 1 < value <= count:
            chosen |= set(range(value))
    return sorted(chosen)


def _by_layer(value: Any, count: int) -> bool:
    """Whether ``value`` maps numbers of layers to something."""
    return isinstance(value, Mapping) and bool(value) and all(str(key).isdigit() and int(key) < count for key in value)


def _is_layer(value: Any, count: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= count


def _cut(key: str, value: Any, counts: Mapping[str, int], kept: Mapping[str, list[int]]) -> Any:
    if key in counts:
        return len(kept[key])
    layers = max(counts, key=counts.__getitem__, default=None)
    if layers and _by_layer(value, counts[layers]):
        return {
            type(one)(kept[layers].index(int(one))): what for one, what in value.items() if int(one) in kept[layers]
        }
    if isinstance(value, Mapping):
        return small(value) if key.endswith("config") or key in ("encoder", "decoder", "generator") else value
    if key in FIRST and isinstance(value, int) and layers:
        return sum(1 for layer in kept[layers] if layer < value)
    if not isinstance(value, (list, tuple)) or not value:
        return value
    for counted, count in counts.items():
        if len(value) == count:
            return [value[layer] for layer in kept[counted]]
    if DEPTHS.search(key) and all(isinstance(one, int) for one in value):
        return [min(one, FEW) for one in value]
    if layers and INDICES.search(key) and all(_is_layer(one, counts[layers]) for one in value):
        return [kept[layers].index(one) if one < counts[layers] else len(kept[layers]) for one in value]
    return value


def make_small(config: Any) -> Any:
    """``config`` with few layers, as its class makes it of those values."""
    values = small(config.to_dict())
    for name in ("transformers_version", "model_type", "architectures"):
        values.pop(name, None)
    return type(config)(**values)
