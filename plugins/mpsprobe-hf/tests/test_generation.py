"""``--phase generate``: which models have it, what ``generate()`` is given, and what a report of it shows."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from meta_forward import build_on_meta

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import MatrixReport
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.recorder import Recorder
from mpsprobe_coverage.kernels.backends import family_named
from mpsprobe_coverage.scanner.scan import CoverageScanner, trace
from mpsprobe_devkit.testing import FakeProgress
from mpsprobe_hf.auto_models.checkpoints import load as load_checkpoint
from mpsprobe_hf.auto_models.model_types import load
from mpsprobe_hf.catalog import entries
from mpsprobe_hf.generation import generating_class_name
from mpsprobe_hf.workload import NamedWorkload, named

DECODER = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
TOWER = {**DECODER, "image_size": 28, "patch_size": 14}
TINY: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 32, "n_layer": 1, "n_head": 4},
    "llama-3-8b": {**DECODER, "num_key_value_heads": 2},
    "mamba": {"hidden_size": 32, "num_hidden_layers": 1},
    "t5-small": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4},
    "whisper-tiny": {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
    | {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64},
}
"""Differences from the published configuration."""


def tiny(name: str) -> NamedWorkload:
    entry = entries()[name]
    return NamedWorkload(dataclasses.replace(entry, config={**entry.config, **TINY[name]}))


def traced(name: str, release: str, **options: Any) -> Recorder:
    """What one release does with a tiny model of that name."""
    asked = RunOptions(phase="generate", **{"seq_len": None if name == "whisper-tiny" else 6, **options})
    table = family_named("mps").load(release)
    with VirtualDevice(table).construction():
        run = tiny(name).build(asked)
    found = trace(run, asked, table, {})
    assert found.failure is None, found.failure
    return found.recorder


def verdicts(recorder: Recorder, phase: str) -> dict[str, str]:
    calls = (one for one in recorder.calls() if one.phase == phase)
    return {one.operator.removeprefix("aten::"): one.judgement.verdict for one in calls}


def assumed(recorder: Recorder) -> set[str]:
    return {one.operator for one in recorder.assumptions()}


@pytest.mark.parametrize("name", ["gpt2", "mamba", "t5-small", "whisper-tiny"])
@pytest.mark.parametrize("decoding", ["greedy", "sampling", "beams"])
def test_writes_as_many_tokens_as_were_asked_for(name: str, decoding: str) -> None:
    torch.manual_seed(0)
    length = None if name == "whisper-tiny" else 6
    asked = RunOptions(phase="generate", batch_size=2, seq_len=length, new_tokens=3, decoding=decoding)
    run = tiny(name).build(asked)
    assert not any(name.startswith("decoder_") for name in run.kwargs) and run.call is not None
    written = run.call(run.model, run.args, run.kwargs)
    given = {"t5-small": 1, "whisper-tiny": 0}.get(name, 6)
    assert written.shape[0] == 2 and written.shape[1] <= given + 3
    assert f"generate() of 3 tokens: {decoding}, dynamic cache" in run.notes


def test_phases_and_cache_of_a_decoder() -> None:
    made = traced("llama-3-8b", "2.7.1", cache="static", new_tokens=4)
    prefill, decode, sampling = (verdicts(made, phase) for phase in ("prefill", "decode", "sampling"))
    assert prefill["index_copy.out"] == decode["index_copy.out"] == "missing" and "index_copy.out" not in sampling
    linear = Counter[str]()
    for one in made.calls():
        linear[one.phase] += one.calls * (one.operator == "aten::linear")
    assert linear["decode"] == 3 * linear["prefill"] and not linear["sampling"]
    assert "argmax" in str(sampling) and assumed(made) == {"logits"}
    assert "index_copy.out" not in verdicts(traced("llama-3-8b", "2.7.1"), "decode")


@pytest.mark.parametrize(
    ("decoding", "release", "missing"),
    [
        ("greedy", "2.3.1", {"isin.Tensor_Tensor_out"}),
        ("beams", "2.3.1", {"isin.Tensor_Tensor_out"}),
        ("sampling", "1.13.1", {"isin.Tensor_Tensor_out", "cumsum.out", "sort.values_stable"}),
        ("sampling", "2.13.0", set()),
        ("beams", "2.13.0", set()),
    ],
)
def test_what_releases_lack_for_choosing_tokens(decoding: str, release: str, missing: set[str]) -> None:
    made = traced("gpt2", release, decoding=decoding, new_tokens=3)
    found = verdicts(made, "sampling")
    assert {one for one, verdict in found.items() if verdict == "missing"} == missing
    assert assumed(made) == {"logits"}


def test_a_report_on_several_releases() -> None:
    asked = RunOptions(phase="generate", seq_len=6, new_tokens=2)
    made = CoverageScanner().scan(tiny("gpt2"), asked, ["2.3.1", "2.4.0"], FakeProgress())
    assert isinstance(made, MatrixReport) and made.native_since == "2.4.0" and made.workload.phase == "generate"
    assert list(made.releases[0].findings) == ["aten::isin.Tensor_Tensor_out"]


def test_whisper_detects_the_language_and_times_words() -> None:
    plain = traced("whisper-tiny", "2.13.0", new_tokens=3)
    timed = traced("whisper-tiny", "2.13.0", new_tokens=3, decoding="beams", word_timestamps=True)
    found = verdicts(timed, "sampling")
    assert assumed(plain) == {"logits"} and assumed(timed) == {"logits", "aten::_to_copy"}
    assert any(one.startswith("std") for one in found) and any(one.startswith("sort") for one in found)
    assert not any(one.startswith("std") for one in verdicts(plain, "sampling"))


@pytest.mark.parametrize(
    ("workload", "options", "error", "said"),
    [
        (named("bert-base"), {}, WorkloadError, ["BertModel has no generate()", "hf:bert/BertLMHeadModel can"]),
        (named("vit-base"), {}, WorkloadError, ["has no generate()", "Leave out --phase generate"]),
        (load("hf:vit"), {}, WorkloadError, ["ViTModel has no generate()"]),
        (tiny("gpt2"), {"word_timestamps": True}, UsageError, ["GPT2LMHeadModel gives words no times"]),
        (tiny("gpt2"), {"seq_len": 1020}, UsageError, ["1020 is outside what 'gpt2' takes", "1 to 1016 tokens"]),
    ],
)
def test_what_cannot_be(workload: Any, options: dict[str, Any], error: type[Exception], said: list[str]) -> None:
    with pytest.raises(error) as caught:
        build_on_meta(workload, phase="generate", **options)
    assert all(part in f"{caught.value} {caught.value.hint}" for part in said)  # type: ignore[attr-defined]


def test_the_class_of_a_type_that_generates() -> None:
    classes = {
        "llama": "LlamaForCausalLM",
        "bart": "BartForConditionalGeneration",
        "whisper": "WhisperForConditionalGeneration",
        "llava": "LlavaForConditionalGeneration",
        "musicgen": "MusicgenForConditionalGeneration",
        "bert": "BertLMHeadModel",
        "vit": "",
    }
    assert {model_type: generating_class_name(model_type) for model_type in classes} == classes


def test_encoders_are_made_decoders() -> None:
    assert build_on_meta(load("hf:bert"), phase="generate", seq_len=4).model.config.is_decoder
    assert build_on_meta(load("hf:bert/BertLMHeadModel"), seq_len=4).model.config.is_decoder
    assert not build_on_meta(load("hf:bert/BertForMaskedLM"), seq_len=4).model.config.is_decoder


def test_a_checkpoint_brings_its_settings_of_generation(tmp_path: Path) -> None:
    from transformers import GenerationConfig, GPT2Config

    config = GPT2Config(vocab_size=100, n_embd=8, n_layer=1, n_head=1)
    config.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config.to_dict(), "architectures": ["GPT2Model"]}))
    GenerationConfig(no_repeat_ngram_size=3).save_pretrained(tmp_path)
    run = build_on_meta(load_checkpoint(str(tmp_path)), phase="generate", seq_len=4)
    assert run.architecture == "GPT2LMHeadModel" and run.model.generation_config.no_repeat_ngram_size == 3
