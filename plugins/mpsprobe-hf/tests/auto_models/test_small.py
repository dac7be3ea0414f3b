"""``--size small``: few layers, and some of each kind."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from meta_forward import build_on_meta

from mpsprobe_hf.auto_models.checkpoints import load as load_checkpoint
from mpsprobe_hf.auto_models.configs.small import small
from mpsprobe_hf.auto_models.model_types import load
from mpsprobe_hf.workload import named

ALTERNATING = ["linear", "linear", "linear", "full"]
GONE: Any = object()
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a number": ({"num_hidden_layers": 12, "hidden_size": 8}, {"num_hidden_layers": 2}),
    "few already": ({"n_layer": 2}, {}),
    "two of each kind": (
        {"num_hidden_layers": 12, "layer_types": ALTERNATING * 3},
        {"num_hidden_layers": 4, "layer_types": ["linear", "linear", "full", "full"]},
    ),
    "a pattern": ({"num_hidden_layers": 9, "block_types": ["rnn", "rnn", "attention"]}, {"num_hidden_layers": 3}),
    "dense layers first": (
        {"num_hidden_layers": 60, "first_k_dense_replace": 3},
        {"num_hidden_layers": 4, "first_k_dense_replace": 2},
    ),
    "shared layers last": (
        {"num_hidden_layers": 30, "num_kv_shared_layers": 10},
        {"num_hidden_layers": 4, "num_kv_shared_layers": 2},
    ),
    "one in four": (
        {"num_hidden_layers": 32, "attn_layer_period": 4, "attn_layer_offset": 3},
        {"num_hidden_layers": 4},
    ),
    "layers that a neck reads": (
        {"num_hidden_layers": 12, "backbone_out_indices": [2, 5, 8, 11]},
        {"num_hidden_layers": 6, "backbone_out_indices": [2, 3, 4, 5]},
    ),
    "the last hidden state": (
        {"num_hidden_layers": 12, "out_indices": [12], "stage_names": ["stem"] + ["s"] * 12, "out_features": ["s12"]},
        {"num_hidden_layers": 3, "out_indices": [3], "stage_names": GONE, "out_features": GONE},
    ),
    "from the end": ({"depth": 24, "vit_layers": [-3, -1]}, {"depth": 4, "vit_layers": [-2, -1]}),
    "by number": (
        {"num_hidden_layers": 6, "per_layer_config": {"5": {"heads": 2}}},
        {"num_hidden_layers": 3, "per_layer_config": {"2": {"heads": 2}}},
    ),
    "layers of a part, named from outside": (
        {"vision_feature_layers": [-2, -5, 6], "vision_config": {"num_hidden_layers": 24}},
        {"vision_feature_layers": [-2, -2, 1], "vision_config": {"num_hidden_layers": 2}},
    ),
    "layers of a part, named in another": (
        {"adapter_config": {"vision_feature_layer": [24, 18]}, "vision_config": {"num_hidden_layers": 27}},
        {"adapter_config": {"vision_feature_layer": [1, 1]}, "vision_config": {"num_hidden_layers": 2}},
    ),
    "layers that use others": (
        {"num_hidden_layers": 6, "layer_types": ["a", "b"] * 3, "kv_source_layers": [0, 1, 0, 3, 4, 5]},
        {"num_hidden_layers": 4, "layer_types": ["a", "b", "a", "b"], "kv_source_layers": [0, 1, 0, 3]},
    ),
    "stages": ({"depths": [2, 2, 18, 2]}, {"depths": [2, 2, 2, 2]}),
    "in a part": ({"text_config": {"num_layers": 6}}, {"text_config": {"num_layers": 2}}),
    "experts": ({"num_experts": 64, "num_experts_per_tok": 6}, {"num_experts": 7}),
    "experts of which the layer gives each token two": ({"num_experts": 128}, {"num_experts": 4}),
    "groups of experts": (
        {"n_routed_experts": 256, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4},
        {"n_routed_experts": 24},
    ),
    "experts, not yet known how many for a token": ({"num_experts": 64, "moe_topk": None}, {}),
    "what shapes the input": ({"num_conv_layers": 7, "conv_dim": [8] * 7}, {}),
}
"""What a configuration has, and what of it changes."""


def test_values() -> None:
    for case, (before, changed) in CASES.items():
        assert small(before) == {key: one for key, one in {**before, **changed}.items() if one is not GONE}, case


@pytest.mark.parametrize("model_type", ["bert", "jamba", "gemma3n_text", "swin", "mllama", "deepseek_v3"])
def test_every_kind_of_module_stays(model_type: str) -> None:
    kinds = []
    for size in ("real", "small"):
        model = build_on_meta(load(f"hf:{model_type}"), size=size).model
        kinds.append(Counter(type(module).__name__ for module in model.modules()))
    assert set(kinds[0]) == set(kinds[1])
    assert kinds[1].total() < kinds[0].total()


def test_every_name_takes_it(tmp_path: Path) -> None:
    config = {"model_type": "bert", "num_hidden_layers": 5, "hidden_size": 12}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for workload in (named("bert-base"), load_checkpoint(str(tmp_path))):
        run = build_on_meta(workload, size="small")
        assert run.model.config.num_hidden_layers == 2
        assert any("few layers" in note for note in run.notes)


def test_a_model_that_needs_its_layers_is_made_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(values: Any) -> Any:
        raise ValueError("12 layers or none")

    monkeypatch.setattr("mpsprobe_hf.auto_models.configs.small.small", refuse)
    run = build_on_meta(load("hf:bert"), size="small")
    assert run.model.config.num_hidden_layers == 12
    assert any("at its real size" in note and "12 layers or none" in note for note in run.notes)
    assert isinstance(run.model, torch.nn.Module)
