"""Image models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.catalog.entry import Architecture, Entry
from mpsprobe_hf.catalog.fields import classes, image

IMAGENET = 1000


def classifier(model_class: str, config: Mapping[str, Any], *, parameters: int, **fields: Any) -> Entry:
    """An image classifier with 1000 classes, for images of 224 by 224; ``fields`` are the others of the ``Entry``."""
    inference = Architecture(model_class, (image(224),), parameters)
    training = Architecture(model_class, (image(224), classes(IMAGENET)), parameters)
    config = {**config, "num_labels": IMAGENET}
    return Entry(family="vision", config=config, inference=inference, training=training, **fields)


ENTRIES = (
    classifier(
        "ResNetForImageClassification",
        {
            "embedding_size": 64,
            "hidden_sizes": [256, 512, 1024, 2048],
            "depths": [3, 4, 6, 3],
            "layer_type": "bottleneck",
            "downsample_in_first_stage": False,
        },
        name="resnet50",
        checkpoint="microsoft/resnet-50",
        model_type="resnet",
        parameters=25_557_032,
        summary="ResNet-50 v1.5: convolutions, 1000 classes of ImageNet",
    ),
    classifier(
        "ViTForImageClassification",
        {
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "image_size": 224,
            "patch_size": 16,
        },
        name="vit-base",
        checkpoint="google/vit-base-patch16-224",
        model_type="vit",
        parameters=86_567_656,
        summary="Vision Transformer base: patches of 16 pixels, 12 layers",
    ),
    Entry(
        name="deit",
        family="vision",
        summary="DeiT base, distilled: patches of 16 pixels, 12 layers",
        checkpoint="facebook/deit-base-distilled-patch16-224",
        model_type="deit",
        config={
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "image_size": 224,
            "patch_size": 16,
            "num_labels": IMAGENET,
        },
        inference=Architecture("DeiTForImageClassificationWithTeacher", (image(224),), 87_338_192),
        training=Architecture(
            "DeiTForImageClassification",
            (image(224), classes(IMAGENET)),
            86_569_192,
            notes=("the head with a teacher is for inference only: trained with the plain classifier",),
        ),
    ),
    classifier(
        "SwinForImageClassification",
        {
            "image_size": 224,
            "patch_size": 4,
            "embed_dim": 96,
            "depths": [2, 2, 6, 2],
            "num_heads": [3, 6, 12, 24],
            "window_size": 7,
        },
        name="swin",
        checkpoint="microsoft/swin-tiny-patch4-window7-224",
        model_type="swin",
        parameters=28_288_354,
        summary="Swin tiny: shifted windows of 7 patches",
    ),
    classifier(
        "ConvNextForImageClassification",
        {"hidden_sizes": [96, 192, 384, 768], "depths": [3, 3, 9, 3], "patch_size": 4, "image_size": 224},
        name="convnext",
        checkpoint="facebook/convnext-tiny-224",
        model_type="convnext",
        parameters=28_589_128,
        summary="ConvNeXt tiny: depthwise convolutions",
    ),
)
