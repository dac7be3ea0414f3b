"""Image models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.catalog.entry import Architecture, Entry
from mpsprobe_hf.catalog.fields import classes, image

IMAGENET = 1000


def classifier(
    name: str,
    checkpoint: str,
    model_class: str,
    config: Mapping[str, Any],
    *,
    model_type: str,
    config_class: str,
    parameters: int,
    summary: str,
    side: int = 224,
) -> Entry:
    """An image classifier with 1000 classes, for square images of ``side`` pixels."""
    pixels = image(side)
    return Entry(
        name=name,
        family="vision",
        summary=summary,
        checkpoint=checkpoint,
        model_type=model_type,
        config_class=config_class,
        config={**config, "num_labels": IMAGENET},
        inference=Architecture(model_class, (pixels,), parameters),
        training=Architecture(model_class, (pixels, classes(IMAGENET)), parameters),
    )


ENTRIES = (
    classifier(
        "resnet50",
        "microsoft/resnet-50",
        "ResNetForImageClassification",
        {
            "embedding_size": 64,
            "hidden_sizes": [256, 512, 1024, 2048],
            "depths": [3, 4, 6, 3],
            "layer_type": "bottleneck",
            "downsample_in_first_stage": False,
        },
        model_type="resnet",
        config_class="ResNetConfig",
        parameters=25_557_032,
        summary="ResNet-50 v1.5: convolutions, 1000 classes of ImageNet",
    ),
)
