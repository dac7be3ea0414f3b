"""What models get: tensors as tokenizers and processors make them, images that are read, and what heads train with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import mpsprobe
from mpsprobe_hf.catalog import entries
from mpsprobe_hf.sizes import Field, shape_of
from mpsprobe_hf.tensors import KINDS, make
from mpsprobe_hf.transformers.configs import repairs
from mpsprobe_hf.transformers.configs.repairs import left_out, with_one_width
from mpsprobe_hf.transformers.correcting.corrections import corrected
from mpsprobe_hf.transformers.inputs.derive import head_of
from mpsprobe_hf.transformers.inputs.guess import Guess
from mpsprobe_hf.transformers.inputs.measures import Measures
from mpsprobe_hf.transformers.inputs.rules import ARGUMENTS, FAMILIES
from mpsprobe_hf.transformers.inputs.rules import HEADS as RULES_OF_HEADS
from mpsprobe_hf.transformers.inputs.signature import Signature
from tests.thorough import all_but

SIZES = {"batch": 4, "seq": 16}


def made(field: Field) -> Any:
    return make(field, SIZES, torch.float32)


def tokens(vocabulary: int, **settings: Any) -> Field:
    return Field("input_ids", "tokens", ("batch", "seq"), vocabulary, settings)


def padding_mask() -> Field:
    return Field("attention_mask", "padding_mask", ("batch", "seq"))


def image(side: int) -> Field:
    return Field("pixel_values", "floats", ("batch", 3, side, side))


def test_padding() -> None:
    mask = made(padding_mask())
    assert mask.dtype == torch.int64 and mask.sum(1).tolist() == [16, 14, 12, 10]
    assert bool((mask.diff(dim=1) <= 0).all())
    assert bool(make(padding_mask(), {"batch": 1, "seq": 5}, torch.float32).all()), "one text has none"


def test_tokens_and_labels() -> None:
    mask, ids, labels = (
        made(padding_mask()),
        made(tokens(100, pad=99)),
        made(Field("labels", "token_labels", ("batch", "seq"), 100)),
    )
    assert int(ids.min()) >= 0 and int(ids.max()) < 100
    assert bool((ids[mask == 0] == 99).all())
    assert bool((labels[mask == 0] == -100).all()) and bool((labels[mask == 1] >= 0).all())
    ids = made(tokens(100, pad=1, leads=((7, 5),), keep=5))
    assert ids[:, :5].eq(7).all() and not ids[:, 5:].eq(7).any()
    field = Field("labels", "integers", ("batch", "seq"), 3, {"low": 1})
    assert set(made(field).flatten().tolist()) == {1, 2}


def test_boxes_and_masks_lie_in_the_image() -> None:
    targets = made(Field("labels", "boxes", ("batch", 5), 91))
    assert len(targets) == 4
    centre, size = targets[0]["boxes"][:, :2], targets[0]["boxes"][:, 2:]
    assert bool(((centre - size / 2 >= 0) & (centre + size / 2 <= 1)).all())
    masks = made(Field("mask_labels", "mask_lists", ("batch", 3, 9, 4)))
    assert len(masks) == 4 and masks[0].shape == (3, 9, 4)
    assert bool((masks[0].sum(0) == 1).all())


def test_the_same_every_time_in_the_dtype_with_generators_untouched() -> None:
    before = torch.get_rng_state()
    assert torch.equal(made(image(8)), made(image(8)))
    assert torch.equal(torch.get_rng_state(), before)
    for dtype in (torch.float16, torch.bfloat16):
        assert (make(image(4), SIZES, dtype).dtype, make(tokens(9), SIZES, dtype).dtype) == (dtype, torch.int64)
    assert shape_of(Field("x", "floats", ("4*batch", "seq", 2)), SIZES) == (16, 16, 2)


def test_every_kind_is_used_and_known() -> None:
    named = [one.own for entry in entries().values() for one in (entry.inference, entry.training) if one]
    used = {form.kind for own in (*named, *FAMILIES.values()) for form in own.arguments.values()}
    used |= {form.kind for forms in ARGUMENTS.values() for form in forms}
    used |= {form.kind for head in RULES_OF_HEADS for form in (*head.labels.values(), *head.inputs.values())}
    assert used == set(KINDS)


READS = {
    "hf:colmodernvbert": "pixel_values",
    "hf:detr": "pixel_values",
    "hf:idefics3": "pixel_values",
    "hf:kimi_k25_vision": "grid_thw",
    "hf:llava_next": "image_sizes",
    "hf:mllama": "cross_attention_mask",
    "hf:qwen2_vl": "image_grid_thw",
    "hf:sam2_video": "inference_session",
}


def report(name: str, **options: Any) -> Any:
    return mpsprobe.coverage(name, size="small", torch="2.13.0", **options)


@pytest.mark.parametrize("name", all_but(lambda name: name in [*READS][:2], READS))
def test_images_are_read(name: str) -> None:
    found = report(name)
    notes = " ".join(found.workload.notes)
    assert found.failure is None, found.failure
    assert READS[name] in notes and "left out" not in notes


def test_generation_reads_the_image() -> None:
    found = report("hf:kosmos-2", phase="generate")
    assert found.failure is None, found.failure
    assert "aten::_mps_convolution" in {one.operator for one in found.operators}, "the patches of the image"


def test_places_of_patches() -> None:
    field = Field("pixel_position_ids", "places", ("batch", 6, 2), settings={"row": (2, 3)})
    places = make(field, {"batch": 2}, torch.float32)
    assert places.shape == (2, 6, 2)
    assert places[1].tolist() == [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]]


def test_parts_that_defaults_leave_out() -> None:
    from transformers import AutoConfig

    assert left_out(AutoConfig.for_model("gemma4")) == {"vision_config": {}, "audio_config": {}}
    assert left_out(AutoConfig.for_model("bert")) == {}


def test_features_have_the_width_of_the_text() -> None:
    from transformers import AutoConfig

    config = AutoConfig.for_model("qwen3_vl")
    assert config.vision_config.out_hidden_size != config.text_config.hidden_size
    with_one_width(config)
    assert config.vision_config.out_hidden_size == config.text_config.hidden_size


@pytest.mark.parametrize(("model_type", "backbone"), [("detr", "resnet"), ("omdet-turbo", "swin")])
def test_backbones_without_timm(model_type: str, backbone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoConfig

    monkeypatch.setattr(repairs, "timm_is_installed", lambda: False)
    config = AutoConfig.for_model(model_type)
    (said,) = repairs.without_timm(config)
    assert "timm" in said and config.backbone_config.model_type == backbone
    monkeypatch.setattr(repairs, "timm_is_installed", lambda: True)
    assert list(repairs.without_timm(AutoConfig.for_model(model_type))) == []


HEADS = {
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


@pytest.mark.parametrize("name", all_but(lambda name: name in [*HEADS][-3:], HEADS))
def test_a_head_trains_with_its_own_loss(name: str) -> None:
    report = mpsprobe.coverage(f"hf:{name}", phase="training", size="small", torch="2.13.0")
    assert report.failure is None
    notes = " ".join(report.workload.notes)
    assert HEADS[name] in notes
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
