"""Open names, and 'hf:TYPE': derived inputs, whole defaults, the model of a part, and few layers (--size small)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from meta_forward import binds, build_on_meta, run_on_meta

from mpsprobe.errors import MissingPackage, UnknownName, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe_hf.plugin import mpsprobe_resolve_workload
from mpsprobe_hf.transformers.checkpoints import CheckpointWorkload
from mpsprobe_hf.transformers.checkpoints import load as load_checkpoint
from mpsprobe_hf.transformers.classes import holder_of, missing_package, model_types, part_types
from mpsprobe_hf.transformers.configs.repairs import declared, part_for, repair
from mpsprobe_hf.transformers.configs.small import small
from mpsprobe_hf.transformers.inputs.rules import FAMILIES
from mpsprobe_hf.transformers.model_types import ModelTypeWorkload, load
from mpsprobe_hf.transformers.names import PUBLISHED, declare
from mpsprobe_hf.transformers.workload import named

TYPES, CHECKPOINTS = "mpsprobe_hf.transformers.model_types:load", "mpsprobe_hf.transformers.checkpoints:load"


def test_forms() -> None:
    targets = {
        "hf:bert": TYPES,
        "hf:bert/BertForMaskedLM": TYPES,
        "hf:org/name": TYPES,
        "hf:": TYPES,
        "org/name": CHECKPOINTS,
        "google-bert/bert-base-uncased": PUBLISHED,
        "hf:Qwen/Qwen3-0.6B": PUBLISHED,
        "bert-bsae": None,
        "a/b/c": None,
        "": None,
        "org/na me": None,
        "models/mine.py": None,
        "/models/mine.py:make": None,
        "C:\\models\\mine.PY:make": None,
        "org/name\x1b[31m": None,
    }
    for name, target in targets.items():
        found = declare(name)
        assert (found and found.target) == target, name
        assert mpsprobe_resolve_workload(name) == found


def test_folder_wins_over_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    found = declare("org/name")
    assert found is not None and found.family == "checkpoint"


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    for prefix in ("./", "../", "/", "~/", "C:\\", "..\\"):
        with pytest.raises(WorkloadError, match="no checkpoint folder"):
            declare(f"{prefix}no-such-folder-anywhere")
    (tmp_path / "checkpoint-500").mkdir()
    (tmp_path / "config.json").write_text("{}", "utf-8")
    for name, hint in (("checkpoint-50", "checkpoint-500"), ("config.json", "It is a file")):
        with pytest.raises(WorkloadError) as caught:
            declare(str(tmp_path / name))
        assert hint in str(caught.value.hint)


@given(st.text(max_size=60))
def test_any_text_is_answered(name: str) -> None:
    try:
        found = declare(name)
    except WorkloadError as error:
        assert str(error).count("\n") <= 1
    else:
        assert found is None or found.name == name


RUNNABLE = {
    "hf:bert": "BertModel",
    "hf:bert/BertForMaskedLM": "BertForMaskedLM",
    "hf:bert/BertForSequenceClassification": "BertForSequenceClassification",
    "hf:bert/BertForQuestionAnswering": "BertForQuestionAnswering",
    "hf:bert/BertForTokenClassification": "BertForTokenClassification",
    "hf:gpt2/GPT2LMHeadModel": "GPT2LMHeadModel",
    "hf:t5/T5ForConditionalGeneration": "T5ForConditionalGeneration",
    "hf:llama": "LlamaModel",
    "hf:mpnet": "MPNetModel",
    "hf:layoutlm": "LayoutLMModel",
    "hf:vit": "ViTModel",
    "hf:vit/ViTForImageClassification": "ViTForImageClassification",
    "hf:segformer/SegformerForSemanticSegmentation": "SegformerForSemanticSegmentation",
    "hf:videomae": "VideoMAEModel",
    "hf:clip": "CLIPModel",
    "hf:clip_text_model": "CLIPTextModel",
    "hf:whisper/WhisperForConditionalGeneration": "WhisperForConditionalGeneration",
    "hf:wav2vec2": "Wav2Vec2Model",
    "hf:audio-spectrogram-transformer": "ASTModel",
    "hf:patchtst": "PatchTSTModel",
}


SMALL = {
    "hf:bark": "BarkSemanticModel",
    "hf:dia_decoder": "DiaModel",
    "hf:dac": "DacModel",
    "hf:kyutai_speech_to_text": "KyutaiSpeechToTextModel",
    "hf:encoder-decoder": "EncoderDecoderModel",
    "hf:nemotron": "NemotronModel",
    "hf:time_series_transformer": "TimeSeriesTransformerModel",
    "hf:timesfm": "TimesFmModel",
    "hf:canine": "CanineModel",
}
"""With few layers, in inference."""

NEEDS_DATA = {"hf:wav2vec2"}
"""In training it masks frames by a boolean index, whose size only data tells."""
OWN_LOSS = {
    "hf:bert/BertForMaskedLM": "labels",
    "hf:bert/BertForQuestionAnswering": "start_positions",
    "hf:clip": "return_loss",
    "hf:t5/T5ForConditionalGeneration": "labels",
}
"""What a head computes its own loss from."""


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("name", "phase"),
    [(name, "inference") for name in RUNNABLE | SMALL]
    + [(name, "training") for name in RUNNABLE if name not in NEEDS_DATA],
)
def test_derived_inputs_run(name: str, phase: str) -> None:
    run = build_on_meta(load(name), phase=phase, size="small" if name in SMALL else "real")
    assert run.architecture == (RUNNABLE | SMALL)[name]
    assert "derived" in run.notes[0]
    assert any("dia_decoder belongs to dia" in note for note in run.notes) == (name == "hf:dia_decoder")
    binds(run)
    run_on_meta(run, training=phase == "training")
    if phase == "training" and (name in OWN_LOSS or name == "hf:bert"):
        assert OWN_LOSS.get(name, "input_ids") in run.kwargs
        assert any("mean of its outputs" in note for note in run.notes) == (name not in OWN_LOSS)


def test_sizes() -> None:
    run = build_on_meta(load("hf:bert"), batch_size=3, seq_len=7)
    assert run.kwargs["input_ids"].shape == (3, 7)
    for options in ({"seq_len": 513}, {"batch_size": 0}):
        with pytest.raises(UsageError):
            build_on_meta(load("hf:bert"), **options)
    with pytest.raises(UsageError, match="no sequences"):
        build_on_meta(load("hf:vit"), seq_len=3)


def test_unknown_names() -> None:
    for name, near in (("hf:brt", "bert"), ("hf:BERT", "bert"), ("hf:gpt-2", "gpt2")):
        with pytest.raises(UnknownName) as caught:
            load(name)
        assert near in caught.value.nearest
    for class_name in ("BertForMaskedLm", "GPT2Model", "BertConfig", "AutoModel", "pipeline"):
        with pytest.raises(UnknownName):
            load(f"hf:bert/{class_name}").build(RunOptions())
    assert build_on_meta(load("hf:bert/")).architecture == "BertModel"


def test_types_without_a_default_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model_type: str) -> None:
        raise ValueError("a sub-configuration is needed\nand much more text")

    monkeypatch.setattr("transformers.AutoConfig.for_model", refuse)
    with pytest.raises(WorkloadError, match=r"ValueError: a sub-configuration is needed\nGive"):
        load("hf:bert").build(RunOptions())


def test_missing_library_is_named() -> None:
    error = missing_package("x", ImportError("\nDetrModel requires the timm library but it was not found"))
    assert isinstance(error, MissingPackage) and error.distribution == "timm"
    assert isinstance(missing_package("x", ImportError("no such file")), WorkloadError)


def test_what_a_type_is_and_what_it_has_not() -> None:
    facts: Any = json.loads(json.dumps(load("hf:bert").describe()))
    assert facts["architecture"] == "BertModel"
    assert "BertForMaskedLM" in facts["classes"]
    assert not any(name.endswith("Config") for name in facts["classes"])
    assert len(model_types()) > 200
    assert isinstance(load("hf:llama"), ModelTypeWorkload)
    with pytest.raises(UsageError, match="no weights"):
        load("hf:bert").build(RunOptions(weights=True))
    workload = load("hf:some-org/some-name")
    assert isinstance(workload, CheckpointWorkload) and workload.name == "some-org/some-name"


def test_what_follows_is_filled_in() -> None:
    inside = SimpleNamespace(num_attention_heads=4, hidden_size=32, head_dim=None, num_key_value_heads=2)
    outside = SimpleNamespace(sub_configs={"text_config": None}, text_config=inside)
    assert repair(outside) == ["head_dim = 8"]
    assert (inside.head_dim, inside.num_key_value_heads) == (8, 2)


def test_what_is_declared_for_a_part_reaches_the_whole() -> None:
    from transformers import Glm4vConfig, MusicgenConfig, MusicgenModel, ZoeDepthConfig

    config = Glm4vConfig(**declared(Glm4vConfig))
    wanted = FAMILIES["glm4v_text"].config["rope_parameters"]
    assert config.text_config.rope_parameters == wanted
    assert "backbone_config" not in declared(ZoeDepthConfig)  # although ``FAMILIES`` declares something for BEiT alone
    config = MusicgenConfig(**declared(MusicgenConfig))
    assert part_for(MusicgenModel, config).model_type == "musicgen_decoder", "a class of a part is made of that part"


def test_a_part_and_its_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"dia_decoder": "dia", "blt_local_encoder": "blt", "bert": "", "clip": ""}
    assert {part: holder_of(part) for part in held} == held
    monkeypatch.setattr("mpsprobe_hf.transformers.model_types.holder_of", lambda model_type: "")
    with pytest.raises(WorkloadError, match="no model that transformers would choose"):
        build_on_meta(load("hf:dia_decoder"))


@pytest.mark.parametrize("name", ["hf:vitmatte", "hf:omdet-turbo"])
def test_a_default_that_builds_only_as_a_checkpoint_has_it(name: str) -> None:
    assert build_on_meta(load(name)).model.config.model_type == name.removeprefix("hf:")


def test_a_missing_package_leaves_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    def needs_timm(workload: Any, options: RunOptions) -> None:
        if workload.model_type in ("gemma3n", "gemma3n_audio"):
            raise MissingPackage(workload.name, "timm")

    assert part_types("gemma3n") == ["gemma3n_text", "gemma3n_audio"]
    workload = load("hf:gemma3n")
    monkeypatch.setattr(type(workload), "_sized", needs_timm)
    with pytest.raises(MissingPackage, match=r"can be judged without it: hf:gemma3n_text\."):
        build_on_meta(workload)


class Around:
    """A configuration whose class does not name the type of its part, as in older releases of transformers."""

    model_type = "around"
    sub_configs: ClassVar[dict[str, type]] = {"text_config": object}

    def __init__(self) -> None:
        self.text_config = SimpleNamespace(model_type="glm4v_text")


def test_a_part_is_known_by_the_default() -> None:
    assert declared(Around)["text_config"]["rope_parameters"]["mrope_section"] == [8, 12, 12]


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

    monkeypatch.setattr("mpsprobe_hf.transformers.configs.small.small", refuse)
    run = build_on_meta(load("hf:bert"), size="small")
    assert run.model.config.num_hidden_layers == 12
    assert any("at its real size" in note and "12 layers or none" in note for note in run.notes)
    assert isinstance(run.model, torch.nn.Module)
