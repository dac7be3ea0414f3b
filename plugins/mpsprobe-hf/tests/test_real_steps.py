"""Real steps on the CPU with small configurations: what has no data cannot show that a loss is finite."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from meta_forward import run_once, tensors

from mpsprobe.protocols import RunOptions
from mpsprobe_hf.catalog import entries
from mpsprobe_hf.catalog.entry import Architecture, Entry
from mpsprobe_hf.workload import NamedWorkload
from tests.thorough import all_but

TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
SPEECH = {**TEXT, "conv_dim": [16] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
IMAGES = {"depth": 2, "hidden_size": 32, "num_heads": 4, "intermediate_size": 64, "out_hidden_size": 32}
VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
WRITER = {**TEXT, "num_key_value_heads": 2, "head_dim": 8}
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
SMALL: Mapping[str, Mapping[str, Any]] = {
    "bert-base": TEXT,
    "deberta-v3-base": TEXT,
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4},
    "llama-3-8b": {**TEXT, "num_key_value_heads": 2},
    "mixtral-8x7b": {**TEXT, "num_key_value_heads": 2},
    "deepseek-v3": {**TEXT, "num_key_value_heads": 4, "moe_intermediate_size": 16, "n_routed_experts": 16}
    | {"first_k_dense_replace": 1, "kv_lora_rank": 16, "q_lora_rank": 16}
    | {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8},
    "mamba": {"hidden_size": 32, "num_hidden_layers": 2},
    "rwkv": {"hidden_size": 32, "attention_hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2},
    "t5-small": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
    "vit-base": TEXT,
    "resnet50": {"hidden_sizes": [8, 16], "depths": [1, 1], "embedding_size": 8},
    "wav2vec2-base": SPEECH,
    "hubert": SPEECH,
    "bark": {
        "semantic_config": {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "input_vocab_size": 129_600},
        "coarse_acoustics_config": {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "input_vocab_size": 12_096},
        "fine_acoustics_config": {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "input_vocab_size": 1_056},
    },
    "speecht5": {"hidden_size": 24, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32},
    "tapas": TEXT,
    "qwen2.5-vl-3b": {
        "text_config": {**WRITER, "rope_parameters": ROPE},
        "vision_config": {**IMAGES, "fullatt_block_indexes": [1]},
    },
    "qwen3-vl-2b": {"text_config": WRITER, "vision_config": {**IMAGES, "deepstack_visual_indexes": [0]}},
    "qwen3.5-0.8b": {
        "text_config": {**WRITER, "num_hidden_layers": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8},
        "vision_config": IMAGES,
    },
    "smolvlm2-500m": {"text_config": WRITER, "vision_config": {**VIT, "patch_size": 64}, "scale_factor": 1},
    "mistral-small-3.1-24b": {"text_config": WRITER, "vision_config": {**VIT, "head_dim": 8}},
    "lfm2-vl-450m": {"text_config": {**WRITER, "num_hidden_layers": 3}, "vision_config": VIT},
    "voxtral-mini-3b": {"text_config": WRITER, "audio_config": {**VIT, "intermediate_size": 128}, "hidden_size": 32},
    "siglip2-base-naflex": {"text_config": {**VIT, "projection_size": 32}, "vision_config": VIT},
    "parakeet-ctc-1.1b": {"encoder_config": VIT},
    "mms-tts": {"num_hidden_layers": 1},
    "qwen3-30b-a3b": {**WRITER, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    **{name: {} for name in ("time-series-transformer", "informer", "autoformer", "patchtst", "patchtsmixer")},
}
"""Differences from the published configuration."""

LENGTHS = {"wav2vec2-base": 16_000, "hubert": 16_000, "bark": 16, "mamba": 8, "rwkv": 8, "tapas": 64}
LENGTHS["parakeet-ctc-1.1b"] = 640
USUAL = {"bert-base", "deepseek-v3", "mamba", "t5-small", "resnet50"}
USUAL |= {"wav2vec2-base", "lfm2-vl-450m", "mms-tts", "patchtst"}
"""One of each kind; the others are tried by the thorough run."""
CASES = [(name, phase) for name in SMALL for phase in entries()[name].phases]


def small(name: str) -> Entry:
    entry = entries()[name]
    config = dict(entry.config)
    for key, value in SMALL[name].items():
        config[key] = {**config.get(key, {}), **value} if key.endswith("_config") else value
    return dataclasses.replace(entry, config=config)


def options(name: str, phase: str, **more: Any) -> RunOptions:
    entry = entries()[name]
    length = None if entry.seq_len is None else max(LENGTHS.get(name, 16), entry.shortest)
    return RunOptions(phase=phase, batch_size=2, seq_len=length, **more)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("name", "phase"), all_but(lambda name, phase: name in USUAL and phase == entries()[name].phases[-1], CASES)
)
def test_step(name: str, phase: str) -> None:
    torch.manual_seed(0)
    run = NamedWorkload(small(name)).build(options(name, phase))
    output = run_once(run, training=phase == "training")
    found = [one for one in tensors(output) if one.is_floating_point()]
    assert found
    assert all(bool(torch.isfinite(one).all()) for one in found if one.dim() == 0)
    if phase == "training":
        gradients = [one.grad for one in run.model.parameters() if one.grad is not None]
        assert gradients and any(float(one.abs().sum()) > 0 for one in gradients)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["bert-base", "gpt2", "t5-small", "vit-base"])
def test_half_precision_step(name: str) -> None:
    run = NamedWorkload(small(name)).build(options(name, "inference", dtype="bfloat16"))
    output = run_once(run, training=False)
    assert all(bool(torch.isfinite(one).all()) for one in tensors(output) if one.is_floating_point())


def test_weights_are_initialised_and_an_untied_head_has_its_own() -> None:
    torch.manual_seed(0)
    model = NamedWorkload(small("bert-base")).build(options("bert-base", "inference")).model
    weight = model.embeddings.word_embeddings.weight
    assert 0.01 < float(weight.detach().std()) < 0.03, "BERT's initializer_range is 0.02"
    entry = dataclasses.replace(entries()["flan-t5-base"], config=small("t5-small").config)
    model = NamedWorkload(entry).build(options("t5-small", "inference")).model
    assert model.lm_head.weight is not model.shared.weight
    assert model.encoder.embed_tokens.weight is model.shared.weight


def test_losses_of_the_catalog() -> None:
    used = {entry.architecture(phase).loss for entry in entries().values() for phase in entry.phases}
    assert {"output", "first_token", "mean"} <= used
    without_a_head: Architecture = entries()["bert-base"].architecture("training")
    assert "BertForSequenceClassification" in without_a_head.notes[0]
