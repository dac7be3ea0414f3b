"""``--size small``: a configuration with few layers, and at least two of each kind that it has; and with few experts
in each mixture, enough for every token to be given to as many as before.

A configuration counts its layers in one number (``num_hidden_layers``), and says things about them in lists: one item
for each layer (``layer_types``), or the numbers of some layers (``out_indices``). All of it is cut down together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

FEW_LAYERS = "made with few layers of each kind (--size small)"
FEW = 2
"""Layers of each kind that stay."""
COUNT = re.compile(r"(^|_)(n_layers?|num_layers|num_[a-z_]*layers|[a-z_]+_layers|n_blocks|num_blocks|depth)$")
"""Names of numbers of layers."""
NOT_COUNTS = re.compile(r"conv|feat|share|skip|aux|adapter|dense_layers|input|output|proj|fusion|predict|window")
"""Parts of names that look like one, and shape what stands between the layers."""
DEPTHS = re.compile(r"(^|_)(depths?|layers_per_stage|num_layers|repeats)$|^layers$")
"""Names of lists of such numbers, one for each stage."""
PICKED = re.compile(r"(indices|indexes|layer_ids|layer_idx|layers_idx|vit_layers)$")
"""Names of lists of layers, each of which the model uses in a way of its own."""
SOME = re.compile(r"_layers$")
"""Names of lists of the layers that are of another kind."""
PATTERN = re.compile(r"(types?|pattern)$")
"""Names of lists of kinds that are repeated until there are enough."""
OUTSIDE = re.compile(r"(feature_layers?|hook_ids|deepstack_layer_map|vision_layer|target_layers)$")
"""Layers of a part of the model, which it names from outside."""
FIRST = ("first_k_dense_replace", "num_dense_layers", "dense_layers")
"""Layers before another kind follows."""
LAST = ("num_kv_shared_layers",)
"""Layers at the end that are of another kind."""
EVERY = ("decoder_sparse_step", "attn_layer_period", "expert_layer_period", "full_attention_interval", "moe_layer_freq")
"""Of how many layers one is of another kind."""
AGAIN = ("num_layers_per_stack",)
"""Numbers that the class works out from the number of layers, which it then changes (HRM)."""
STAGES = ("stage_names", "out_features")
"""Written anew by configurations of backbones, from the number of layers and ``out_indices``."""
KINDS = 4
"""Different items in a list by layer; with more of them it says no kinds."""
PARTS = ("encoder", "decoder", "generator", "question_encoder")


def make_small(config: Any) -> Any:
    """``config`` with few layers, as its class makes it of those values.

    Raises Exception: whatever the class raises, if it does not take them.
    """
    values = small(config.to_dict())
    for name in ("transformers_version", "model_type", "architectures", *AGAIN):
        values.pop(name, None)
    return type(config)(**values)


def small(values: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` of a configuration (``to_dict()``) with few layers; those of configurations inside too."""
    stages = {len(value) for key, value in values.items() if _are_depths(key, value)}
    counts = {key: value for key, value in values.items() if _is_count(key, value) and value not in stages}
    # A backbone calls its embeddings "stem", and each layer a stage.
    if any(len(values.get("stage_names") or ()) == count + 1 for count in counts.values()):
        values = {key: value for key, value in values.items() if key not in STAGES}
    kept = {key: _kept(value, values) for key, value in counts.items()}
    most = max(counts, key=counts.__getitem__, default="")
    cut: dict[str, Any] = {}
    for key, value in values.items():
        if key in counts:
            cut[key] = len(kept[key])
        elif isinstance(value, Mapping) and (key.endswith("config") or key in PARTS):
            cut[key] = _by_number(value, kept[most]) if most and _numbers(value, counts[most]) else small(value)
        elif isinstance(value, (list, tuple)) and value:
            cut[key] = _list(key, list(value), counts, kept, most)
        elif most and key in (*FIRST, *LAST) and isinstance(value, int):
            of_first = sum(1 for layer in kept[most] if layer < value)
            of_last = sum(1 for layer in kept[most] if layer >= counts[most] - value)
            cut[key] = of_first if key in FIRST else of_last
        else:
            cut[key] = value
    depths = [cut[key] for key in counts] or [depth for key, part in cut.items() for depth in _depths(key, part)]
    cut |= few_experts(values)
    return {key: _inside(key, value, min(depths)) if depths else value for key, value in cut.items()}


def _inside(key: str, value: Any, depth: int) -> Any:
    """``value`` with none but ``depth`` layers of another part, where it names some; in a part without layers too."""
    if key.endswith("config") and isinstance(value, Mapping) and not _depths(key, value):
        return {name: _inside(str(name), inner, depth) for name, inner in value.items()}
    return _within(value, depth) if OUTSIDE.search(key) else value


def _depths(key: str, part: Any) -> list[int]:
    """The numbers of layers of a configuration inside another."""
    if not key.endswith("config") or not isinstance(part, Mapping):
        return []
    return [value for name, value in part.items() if COUNT.search(str(name)) and type(value) is int]


def _within(value: Any, depth: int) -> Any:
    """``value`` with the nearest of ``depth`` layers where it names one that is not there."""
    if isinstance(value, (list, tuple)):
        return [_within(part, depth) for part in value]
    return max(min(value, depth - 1), -depth) if type(value) is int else value


def _is_count(key: str, value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool) and value > FEW
    return whole and COUNT.search(key) is not None and not NOT_COUNTS.search(key) and key not in (*FIRST, *LAST)


def _are_depths(key: str, value: Any) -> bool:
    """Whether ``value`` has the number of layers of each stage."""
    return (
        DEPTHS.search(key) is not None and isinstance(value, (list, tuple)) and all(type(part) is int for part in value)
    )


def _kept(count: int, values: Mapping[str, Any]) -> list[int]:
    """The layers of ``count`` that stay: some of each kind, and those that are named."""
    chosen: set[int] = set()
    seen: Counter[tuple[Any, ...]] = Counter()
    said = [list(labels) for labels in _labels(count, values)]
    for layer in range(count):
        kind = tuple(labels[layer] for labels in said)
        seen[kind] += 1
        if seen[kind] <= FEW:
            chosen.add(layer)
    for key, value in values.items():
        if PICKED.search(key) and _are_layers(value, count):
            # Hidden states have the embeddings in front: the last of them is that of the last layer.
            chosen |= {min(part % (count + 1) if part >= 0 else count + part, count - 1) for part in value}
        elif key in EVERY and isinstance(value, int) and 1 < value <= count:
            chosen |= set(range(value))
        elif PATTERN.search(key) and isinstance(value, (list, tuple)) and len(value) < count:
            chosen |= set(range(len(value)))
    return sorted(chosen)


def _labels(count: int, values: Mapping[str, Any]) -> Iterator[list[Any]]:
    """For each thing that the configuration says about its layers, the word for each of them."""
    for key, value in values.items():
        if isinstance(value, (list, tuple)) and len(value) == count:
            words = [str(part) for part in value]
            if len(set(words)) <= KINDS:
                yield words
        elif SOME.search(key) and not PICKED.search(key) and _are_layers(value, count):
            yield [layer in value for layer in range(count)]
        elif key.endswith("config") and _numbers(value, count):
            yield [str(value.get(layer, value.get(str(layer)))) for layer in range(count)]
        elif key in FIRST and isinstance(value, int):
            yield [layer < value for layer in range(count)]
        elif key in LAST and isinstance(value, int):
            yield [layer < count - value for layer in range(count)]


def _are_layers(value: Any, count: int) -> bool:
    """Whether ``value`` lists numbers of layers, from the front or from the end."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return all(isinstance(part, int) and not isinstance(part, bool) and -count <= part <= count for part in value)


def _numbers(value: Any, count: int) -> bool:
    """Whether ``value`` maps numbers of layers to something."""
    return isinstance(value, Mapping) and bool(value) and all(str(key).isdigit() and int(key) < count for key in value)


def _by_number(value: Mapping[Any, Any], kept: list[int]) -> dict[Any, Any]:
    return {type(layer)(kept.index(int(layer))): what for layer, what in value.items() if int(layer) in kept}


def _list(key: str, value: list[Any], counts: Mapping[str, int], kept: Mapping[str, list[int]], most: str) -> list[Any]:
    for counted, count in counts.items():
        if len(value) == count:
            stay = [value[layer] for layer in kept[counted]]
            if SOME.search(key) and _are_layers(value, count) and len(set(value)) > KINDS:
                # Each names a layer, of which it uses something; itself where that does not stay.
                return [kept[counted].index(layer) if layer in kept[counted] else at for at, layer in enumerate(stay)]
            return stay
    if _are_depths(key, value):
        return [min(part, FEW) for part in value]
    if most and (PICKED.search(key) or SOME.search(key)) and _are_layers(value, counts[most]):
        return [moved for moved in (_moved(part, counts[most], kept[most]) for part in value) if moved is not None]
    return value


def _moved(layer: int, count: int, kept: list[int]) -> int | None:
    """The number that ``layer`` has now."""
    if layer < 0:
        return kept.index(count + layer) - len(kept) if count + layer in kept else None
    return len(kept) if layer == count else kept.index(layer) if layer in kept else None


FEW_EXPERTS = 4
EXPERTS = re.compile(r"^(moe_)?(num_|n_)(routed_|local_)?experts$|^zero_expert_num$")
"""Names of numbers of experts."""
OF_A_TOKEN = re.compile(r"experts?_per_tok(en)?$|^(moe_)?top_?k$|^moe_k$")
"""Names of numbers of those that a token is given to."""
GROUPS = ("n_group", "num_expert_group")
"""Names of numbers of groups of experts, of which some are chosen first."""
CHOSEN = "topk_group"
IN_A_GROUP = 2
"""Experts of a group that are compared with other groups'."""


def few_experts(values: Mapping[str, Any]) -> dict[str, int]:
    """The numbers of experts in ``values`` of a configuration that are larger than they need to be, made smaller."""
    mixed = {key: value for key, value in values.items() if EXPERTS.search(key) and type(value) is int}
    of_a_token = [value for key, value in values.items() if OF_A_TOKEN.search(key)]
    if not mixed or not all(type(size) is int for size in of_a_token):
        return {}
    groups = next((values[key] for key in GROUPS if values.get(key)), 1)
    chosen = values.get(CHOSEN) or 1
    in_a_group = max(IN_A_GROUP, max(of_a_token, default=1) // chosen + 1)
    few = max(FEW_EXPERTS, groups * in_a_group)
    return {key: few for key, value in mixed.items() if value > few}
