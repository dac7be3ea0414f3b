"""``hf:TYPE``: model types with inputs derived from their configuration."""

from __future__ import annotations

import json
from typing import Any

import pytest
from meta_forward import binds, build_on_meta, run_on_meta

from mpsprobe.errors import MissingPackage, UnknownName, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe_hf.auto_models.checkpoints import CheckpointWorkload
from mpsprobe_hf.auto_models.classes import missing_package, model_types
from mpsprobe_hf.auto_models.model_types import ModelTypeWorkload, load

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
    [(name, "inference") for name in RUNNABLE] + [(name, "training") for name in RUNNABLE if name not in NEEDS_DATA],
)
def test_derived_inputs_run(name: str, phase: str) -> None:
    run = build_on_meta(load(name), phase=phase)
    assert run.architecture == RUNNABLE[name]
    assert "derived" in run.notes[0]
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


def test_repository_after_the_prefix() -> None:
    workload = load("hf:some-org/some-name")
    assert isinstance(workload, CheckpointWorkload) and workload.name == "some-org/some-name"


def test_weights_are_refused() -> None:
    with pytest.raises(UsageError, match="no weights"):
        load("hf:bert").build(RunOptions(weights=True))


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


def test_description() -> None:
    facts: Any = json.loads(json.dumps(load("hf:bert").describe()))
    assert facts["architecture"] == "BertModel"
    assert "BertForMaskedLM" in facts["classes"]
    assert not any(name.endswith("Config") for name in facts["classes"])


def test_many_types_are_known() -> None:
    assert len(model_types()) > 200
    assert isinstance(load("hf:llama"), ModelTypeWorkload)
