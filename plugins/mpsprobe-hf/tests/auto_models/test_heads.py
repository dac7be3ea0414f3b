"""Heads: what they compute a loss from, one type for each kind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import mpsprobe
from mpsprobe_hf.auto_models.correcting.corrections import corrected
from mpsprobe_hf.auto_models.inputs.guess import Guess
from mpsprobe_hf.auto_models.inputs.heads import head_of
from mpsprobe_hf.auto_models.inputs.measures import Measures
from mpsprobe_hf.auto_models.inputs.signature import Signature
from mpsprobe_hf.catalog.entry import Field
from mpsprobe_hf.tensors import make
from tests.thorough import all_but

KINDS = {
    "bert/BertForNextSentencePrediction": "labels",
    "bart/BartForSequenceClassification": "labels",
    "vit/ViTForMaskedImageModeling": "bool_masked_pos",
    "detr/DetrForSegmentation": "labels",
    "d_fine/DFineForObjectDetection": "labels",
    "wav2vec2/Wav2Vec2ForAudioFrameClassification": "labels",
    "patchtst/PatchTSTForRegression": "target_values",
    "patchtst/PatchTSTForPrediction": "future_values",
    "splinter/SplinterForPreTraining": "question_positions",
}


@pytest.mark.parametrize("name", all_but(lambda name: name in [*KINDS][-3:], KINDS))
def test_a_head_trains_with_its_own_loss(name: str) -> None:
    report = mpsprobe.coverage(f"hf:{name}", phase="training", size="small", torch="2.13.0")
    assert report.failure is None
    notes = " ".join(report.workload.notes)
    assert KINDS[name] in notes
    assert "left out" not in notes and "mean of its outputs" not in notes


@pytest.mark.parametrize("name", ["qwen2/JevForDecision", "reformer/ReformerModelWithLMHead"])
def test_other_heads(name: str) -> None:
    """A text head is put around any text model; one that writes refuses a configuration that does not decode."""
    assert mpsprobe.coverage(f"hf:{name}", size="small", torch="2.13.0").failure is None


def test_the_longer_ending_goes_first() -> None:
    endings = {
        "BertForNextSentencePrediction": "NextSentencePrediction",
        "PatchTSTForPrediction": "Prediction|TimeSeries",
        "PatchTSMixerForTimeSeriesClassification": "(Image|Audio|Video|TimeSeries|For)Classification\\w*|XVector",
        "ViTForMaskedImageModeling": "MaskedImageModeling",
    }
    assert {name: (head := head_of(name)) and head.ending for name in endings} == endings


class _Tagger(torch.nn.Module):
    def forward(self, input_ids: Any = None, labels: Any = None) -> None:
        torch.nn.functional.cross_entropy(torch.zeros(24, 3), labels.view(-1))


def test_labels_get_as_many_as_the_loss_has_predictions() -> None:
    _Tagger.__name__ = "TaggerForTokenClassification"
    config = SimpleNamespace(vocab_size=10, num_labels=3)
    guess = Guess(Signature.of(_Tagger, config), Measures(config))
    with pytest.raises(ValueError, match="to match target") as caught:
        _Tagger()(labels=torch.zeros(2, 6, dtype=torch.int64))
    better = corrected(guess, caught.value, {"batch": 2, "seq": 6})
    assert better is not None and better.arguments["labels"].shape == ("batch", 12)


def test_made_inputs_have_separators_and_masks() -> None:
    field = Field("input_ids", "tokens", ("batch", "seq"), 10, {"separators": 3, "separator": 2, "pad": 1})
    ids = make(field, {"batch": 2, "seq": 12}, torch.float32)
    assert (ids == 2).sum(1).tolist() == [3, 3]
    assert ids[0, -1] == 2
    (target,) = make(Field("labels", "boxes", ("batch", 4, 8, 6), 3), {"batch": 1}, torch.float32)
    assert target["masks"].shape == (4, 8, 6)
