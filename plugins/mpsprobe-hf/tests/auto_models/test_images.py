"""Models that read images and video: the answer includes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import mpsprobe
from mpsprobe_hf.auto_models.configs import backbones
from mpsprobe_hf.auto_models.configs.images import left_out, with_one_width
from mpsprobe_hf.catalog.entry import Field
from mpsprobe_hf.tensors import make
from tests.thorough import all_but

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

    monkeypatch.setattr(backbones, "timm_is_installed", lambda: False)
    config = AutoConfig.for_model(model_type)
    (said,) = backbones.without_timm(config)
    assert "timm" in said and config.backbone_config.model_type == backbone
    monkeypatch.setattr(backbones, "timm_is_installed", lambda: True)
    assert list(backbones.without_timm(AutoConfig.for_model(model_type))) == []
