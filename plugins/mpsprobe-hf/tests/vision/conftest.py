"""Small stand-ins for timm and torchvision, which are not installed with the other packages that tests need.

A torchvision that does not fit the installed torch would break transformers and diffusers, whose tests share this
environment. ``real/`` has the tests with both libraries, for where they are installed.
"""

from __future__ import annotations

import fnmatch
from types import SimpleNamespace
from typing import Any

import pytest
import torch

WEIGHTS = SimpleNamespace(
    transforms=SimpleNamespace(keywords={"crop_size": 32}),
    meta={"num_params": 122, "categories": ["cat", "dog"], "_docs": "evaluated with `clip_len=3`"},
)


class Scores(torch.nn.Module):
    """Two class scores of each picture or clip."""

    num_classes = 2

    def __init__(self, weights: None = None) -> None:
        super().__init__()
        self.head = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``(batch, 3, …)`` to ``(batch, 2)``."""
        scores: torch.Tensor = self.head(x.flatten(2).mean(2))
        return scores


class Segmenter(torch.nn.Module):
    """Two class scores of each pixel, twice."""

    def __init__(self, weights: None = None, aux_loss: bool = False) -> None:
        super().__init__()
        assert aux_loss
        self.head = torch.nn.Conv2d(3, 2, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """``(batch, 3, height, width)`` to ``(batch, 2, height, width)``."""
        return {"out": self.head(x), "aux": self.head(x)}


class Detector(torch.nn.Module):
    """Takes pictures, and targets in training; keeps what it took."""

    def __init__(self, weights: None = None, weights_backbone: str | None = "downloaded") -> None:
        super().__init__()
        assert weights_backbone is None
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.roi_heads = SimpleNamespace(
            has_mask=lambda: True,
            has_keypoint=lambda: True,
            keypoint_predictor=SimpleNamespace(kps_score_lowres=SimpleNamespace(out_channels=17)),
        )

    def forward(self, images: list[torch.Tensor], targets: Any = None) -> Any:
        """Pictures to losses, or to themselves."""
        return {"one": self.scale, "other": 2 * self.scale} if self.training else [{"boxes": image} for image in images]


def _in(package: str, builder: Any) -> Any:
    def build(**arguments: Any) -> Any:
        return builder(**arguments)

    build.__module__ = f"torchvision.models{package}.file"
    build.__wrapped__ = builder  # type: ignore[attr-defined]
    return build


BUILDERS = {
    "net": _in("", Scores),
    "clips": _in(".video", Scores),
    "segmenter": _in(".segmentation", Segmenter),
    "detector": _in(".detection", Detector),
}
TORCHVISION = SimpleNamespace(
    __name__="torchvision.models",
    list_models=lambda: list(BUILDERS),
    get_model_builder=BUILDERS.__getitem__,
    get_model_weights=lambda name: SimpleNamespace(DEFAULT=WEIGHTS),
)


def _create(name: str, pretrained: bool, features_only: bool = False, num_classes: int = 2) -> Scores:
    assert not pretrained
    if features_only:
        raise RuntimeError("features_only not implemented\nfor this model")
    model = Scores()
    model.num_classes = num_classes
    return model


TIMM = SimpleNamespace(
    is_model=["net", "network"].__contains__,
    list_models=lambda: ["net", "network"],
    list_pretrained=lambda pattern="*": fnmatch.filter(["net.in1k", "net.in21k"], pattern),
    get_pretrained_cfg=lambda name: SimpleNamespace(
        to_dict=lambda: {"input_size": (3, 32, 32), "num_classes": 2, "hf_hub_id": "timm/net"}
    ),
    create_model=_create,
)
DATA = SimpleNamespace(resolve_model_data_config=lambda model: {"input_size": (3, 32, 32)})


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both libraries, seen by this plugin alone."""
    there = {"timm": TIMM, "timm.data": DATA, "torchvision.models": TORCHVISION}
    for user in ("timm_models", "torchvision_models", "libraries"):
        monkeypatch.setattr(f"mpsprobe_hf.vision.{user}.import_library", lambda module, workload: there[module])
