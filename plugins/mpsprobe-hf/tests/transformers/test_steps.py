"""Steps of small models on the CPU: real ones with finite losses, adapters, and what generate() is given."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from meta_forward import build_on_meta, run_on_meta, run_once, tensors

import mpsprobe
from mpsprobe.errors import MissingPackage, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.schemas import CoverageReport, MatrixReport
from mpsprobe.stepping import TorchStep
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.recording.recorder import Recorder
from mpsprobe_coverage.scanning.scan import CoverageScanner
from mpsprobe_coverage.scanning.tracing import Tracer
from mpsprobe_devkit.testing import FakeProgress
from mpsprobe_hf.catalog import entries
from mpsprobe_hf.catalog.entry import Entry
from mpsprobe_hf.transformers.checkpoints import load as load_checkpoint
from mpsprobe_hf.transformers.generation import generating_class_name
from mpsprobe_hf.transformers.model_types import load
from mpsprobe_hf.transformers.workload import NamedWorkload, named
from tests.thorough import all_but

TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
SPEECH = {**TEXT, "conv_dim": [16] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
IMAGES = {"depth": 2, "hidden_size": 32, "num_heads": 4, "intermediate_size": 64, "out_hidden_size": 32}
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
    "whisper-tiny": {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
    | {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64},
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
    "smolvlm2-500m": {"text_config": WRITER, "vision_config": {**TEXT, "patch_size": 64}, "scale_factor": 1},
    "mistral-small-3.1-24b": {"text_config": WRITER, "vision_config": {**TEXT, "head_dim": 8}},
    "lfm2-vl-450m": {"text_config": {**WRITER, "num_hidden_layers": 3}, "vision_config": TEXT},
    "voxtral-mini-3b": {"text_config": WRITER, "audio_config": {**TEXT, "intermediate_size": 128}, "hidden_size": 32},
    "siglip2-base-naflex": {"text_config": {**TEXT, "projection_size": 32}, "vision_config": TEXT},
    "parakeet-ctc-1.1b": {"encoder_config": TEXT},
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


def tiny(name: str) -> NamedWorkload:
    return NamedWorkload(small(name))


def options(name: str, phase: str, **more: Any) -> RunOptions:
    entry = entries()[name]
    length = None if entry.seq_len is None else max(LENGTHS.get(name, 16), entry.shortest or 1)
    return RunOptions(phase=phase, batch_size=2, seq_len=length, **more)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("name", "phase"), all_but(lambda name, phase: name in USUAL and phase == entries()[name].phases[-1], CASES)
)
def test_step(name: str, phase: str) -> None:
    torch.manual_seed(0)
    run = tiny(name).build(options(name, phase))
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
    run = tiny(name).build(options(name, "inference", dtype="bfloat16"))
    output = run_once(run, training=False)
    assert all(bool(torch.isfinite(one).all()) for one in tensors(output) if one.is_floating_point())


def test_weights_are_initialised_and_an_untied_head_has_its_own() -> None:
    torch.manual_seed(0)
    model = tiny("bert-base").build(options("bert-base", "inference")).model
    weight = model.embeddings.word_embeddings.weight
    assert 0.01 < float(weight.detach().std()) < 0.03, "BERT's initializer_range is 0.02"
    entry = dataclasses.replace(entries()["flan-t5-base"], config=small("t5-small").config)
    model = NamedWorkload(entry).build(options("t5-small", "inference")).model
    assert model.lm_head.weight is not model.shared.weight
    assert model.encoder.embed_tokens.weight is model.shared.weight


def test_a_model_without_a_head_says_where_there_is_one() -> None:
    notes = tiny("bert-base").build(options("bert-base", "training")).notes
    assert any("BertForSequenceClassification" in note for note in notes)
    assert any("trained with the mean of its outputs" in note for note in notes)


RELEASE = "2.13.0"


def built(dtype: str = "float32", **options: Any) -> tuple[TorchRun, RunOptions]:
    asked = RunOptions(phase="training", batch_size=2, seq_len=8, dtype=dtype, lora=True, **options)
    return tiny("gpt2").build(asked), asked


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_step_changes_the_adapters_alone(dtype: str) -> None:
    run, asked = built(dtype, lora_rank=4)
    before = {name: one.detach().clone() for name, one in run.model.named_parameters()}
    step = TorchStep(run, asked, "cpu")
    step.take()
    step.take()  # in the first, A's gradient is zero, because B is
    changed = {name for name, one in run.model.named_parameters() if not torch.equal(one, before[name])}
    assert changed and all(".lora_" in name for name in changed)
    assert any("c_attn.lora_A" in name for name in before) and not any("lm_head.lora" in name for name in before)
    assert not step.notes
    adapters = {one.dtype for name, one in run.model.named_parameters() if ".lora_" in name}
    assert adapters == {torch.float32}, "as peft keeps them next to smaller weights"
    assert {one.shape[0] for name, one in run.model.named_parameters() if ".lora_A." in name} == {4}


@pytest.mark.parametrize("name", ["vit-base", "whisper-tiny", "t5-small", "clip", "segformer"])
def test_every_kind_of_model_takes_adapters(name: str) -> None:
    run = build_on_meta(named(name), phase="training", lora=True)
    assert {".lora_" in one for one, p in run.model.named_parameters() if p.requires_grad} == {True}
    run_on_meta(run, training=True)


def test_a_report_has_the_rank() -> None:
    found = mpsprobe.coverage("distilbert", torch=RELEASE, phase="training", lora=True, lora_rank=8)
    assert isinstance(found, CoverageReport)
    assert found.failure is None and found.workload.lora_rank == 8
    assert found.workload.trained == sum(8 * (i + o) for i, o in [(768, 768)] * 4 + [(768, 3072)] * 2) * 6
    assert found.workload.parameters == 66_362_880 + found.workload.trained
    whole = mpsprobe.coverage("distilbert", torch=RELEASE, phase="training", size="small")
    assert (whole.workload.lora_rank, whole.workload.trained) == (None, None)


def test_a_model_type_takes_adapters_and_one_without_linear_layers_cannot() -> None:
    run = build_on_meta(load("hf:vit"), phase="training", lora=True)
    run_on_meta(run, training=True)
    with pytest.raises(WorkloadError, match="it has no linear layers"):
        load("hf:resnet").build(RunOptions(phase="training", lora=True))


def test_peft_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingPackage, match="--lora needs the package peft") as caught:
        built()
    assert caught.value.hint == 'Install it: pip install "peft"'


def test_wrong_use() -> None:
    for options, said in (
        ({"phase": "inference", "lora": True}, "--lora makes sense with --phase training only"),
        ({"phase": "training", "lora_rank": 4}, "--lora-rank makes sense with --lora only"),
        ({"phase": "training", "lora": True, "lora_rank": 0}, "--lora-rank takes a whole number from 1"),
    ):
        with pytest.raises(UsageError, match=said):
            mpsprobe.coverage("gpt2", torch=RELEASE, **options)  # type: ignore[arg-type]
    # A model that is handed over brings its own.
    with pytest.raises(UsageError, match="does not take --lora") as caught:
        mpsprobe.coverage(torch.nn.Linear(2, 2), torch.ones(1, 2), torch=RELEASE, phase="training", lora=True)
    assert "get_peft_model" in str(caught.value.hint)


def traced(name: str, release: str, **options: Any) -> Recorder:
    """What one release does with a tiny model of that name."""
    asked = RunOptions(phase="generate", **{"seq_len": None if name == "whisper-tiny" else 6, **options})
    table = family_named("mps").load(release)
    with VirtualDevice(table).construction():
        run = tiny(name).build(asked)
    found = Tracer(run, asked).trace(table)
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
