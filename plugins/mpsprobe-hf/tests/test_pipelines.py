"""Pipelines that a program hands over to ``mpsprobe.coverage``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    pipeline,
)

import mpsprobe
from mpsprobe.errors import UsageError

RELEASE = "2.13.0"
SMALL = {"vocab_size": 6, "bos_token_id": 2, "eos_token_id": 3}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    words = {word: index for index, word in enumerate(("[UNK]", "[PAD]", "[CLS]", "[SEP]", "a", "b"))}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]", eos_token="[SEP]")


@pytest.fixture
def classifier(tokenizer: PreTrainedTokenizerFast) -> Any:
    config = BertConfig(
        **SMALL,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,  # type: ignore[arg-type]
    )
    return pipeline("text-classification", model=BertForSequenceClassification(config).eval(), tokenizer=tokenizer)


def test_a_pipeline_is_judged_from_its_inputs_on_and_left_as_it_was(
    classifier: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # a pipeline sets it for a list of inputs
    weight = classifier.model.classifier.weight
    before = classifier("a b")
    for inputs in ("a b", ["a b", "a"], ("a b",), {"inputs": "a b"}):
        report = mpsprobe.coverage(classifier, inputs, torch=RELEASE)
        assert report.failure is None and not report.findings
        assert report.workload.name == "TextClassificationPipeline of BertForSequenceClassification"
        assert "bert.encoder.layer.0.attention.output.dense" in {module for one in report for module in one.modules}
    assert classifier("a b") == before and classifier.device.type == "cpu"
    assert classifier.model.classifier.weight is weight


def test_one_that_generates_writes_a_few_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    model = GPT2LMHeadModel(GPT2Config(**SMALL, n_embd=16, n_layer=1, n_head=2))
    writer = pipeline("text-generation", model=model, tokenizer=tokenizer)
    report = mpsprobe.coverage(writer, "a b", torch=RELEASE, phase="generate", new_tokens=3)
    assert report.failure is None and {"prefill", "decode"} <= {phase for one in report for phase in one.phases}
    assert "generate() of 3 tokens" in report.workload.notes
    assert "generate() of 8 tokens" in mpsprobe.coverage(writer, "a b", torch=RELEASE).workload.notes


def test_a_copy_of_it_is_timed(classifier: Any) -> None:
    report = mpsprobe.profile(classifier, "a b", device="cpu", steps=2, warmup=0, probe="none", no_fallbacks=True)
    assert report.cells[0].step is not None and report.cells[0].step.count == 2


def test_what_cannot_work_is_told(classifier: Any) -> None:
    for inputs, options, says in (
        (None, {}, "needs inputs"),
        ("a", {"phase": "training"}, "a pipeline is not trained"),
        ("a", {"batch_size": 2}, "Leave --batch-size out"),
    ):
        with pytest.raises(UsageError, match=says):
            mpsprobe.coverage(classifier, inputs, torch=RELEASE, **options)  # type: ignore[arg-type]
    classifier.device = torch.device("mps")
    with pytest.raises(UsageError, match="is on mps"):
        mpsprobe.coverage(classifier, "a", torch=RELEASE)
