"""Image models of the years since 2023, and those that the Hub is asked for most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.catalog.entry import Architecture, Entry, Field
from mpsprobe_hf.catalog.fields import image, padding_mask, tokens, zeros
from mpsprobe_hf.catalog.multimodal import RETURN_LOSS
from mpsprobe_hf.catalog.segmentation import FEW, HUNGARIAN, OBJECTS

NO_LOSS = ("it has no loss in transformers: trained with the mean of its outputs",)


def plain(
    name: str,
    checkpoint: str,
    parameters: int,
    model_class: str,
    model_type: str,
    summary: str,
    config: Mapping[str, Any],
    inputs: tuple[Field, ...],
    **fields: Any,
) -> Entry:
    """A model without a loss of its own; ``fields`` are the others of the ``Entry``."""
    return Entry(
        name=name,
        family="vision",
        summary=summary,
        checkpoint=checkpoint,
        model_type=model_type,
        config=config,
        inference=Architecture(model_class, inputs, parameters),
        training=Architecture(model_class, inputs, parameters, loss="mean", notes=NO_LOSS),
        **fields,
    )


def detector(
    name: str,
    checkpoint: str,
    parameters: int,
    model_class: str,
    model_type: str,
    summary: str,
    config: Mapping[str, Any],
) -> Entry:
    """A detector of the 80 classes of COCO, for images that are resized to 640 by 640."""
    boxes = Field("labels", "boxes", ("batch", OBJECTS), 80)
    return Entry(
        name=name,
        family="vision",
        summary=summary,
        checkpoint=checkpoint,
        model_type=model_type,
        config={**config, "num_labels": 80},
        inference=Architecture(model_class, (image(640),), parameters),
        training=Architecture(model_class, (image(640), boxes), parameters, requires=HUNGARIAN),
        batch_size=FEW,
    )


def pair(
    name: str,
    checkpoint: str,
    parameters: int,
    model_class: str,
    model_type: str,
    summary: str,
    config: Mapping[str, Any],
    inputs: tuple[Field, ...],
    longest: int,
) -> Entry:
    """A model of how well texts and images match."""
    return Entry(
        name=name,
        family="multimodal",
        summary=summary,
        checkpoint=checkpoint,
        model_type=model_type,
        config=config,
        inference=Architecture(model_class, inputs, parameters),
        training=Architecture(model_class, (*inputs, RETURN_LOSS), parameters),
        seq_len=longest,
        longest=longest,
    )


def vit(width: int, heads: int, **more: Any) -> dict[str, Any]:
    """A Vision Transformer of 12 layers."""
    return {"hidden_size": width, "num_hidden_layers": 12, "num_attention_heads": heads, **more}


DINOV2 = {"image_size": 518, "patch_size": 14}
DINOV3 = {"image_size": 224, "patch_size": 16, "num_register_tokens": 4}
STAGES = ["stage9", "stage10", "stage11", "stage12"]

ENTRIES = (
    plain(
        "dinov2-small",
        "facebook/dinov2-small",
        22_056_576,
        "Dinov2Model",
        "dinov2",
        "DINOv2 small: features of images, patches of 14 pixels, 12 layers",
        vit(384, 6, **DINOV2),
        (image(224),),
    ),
    plain(
        "dinov2-base",
        "facebook/dinov2-base",
        86_580_480,
        "Dinov2Model",
        "dinov2",
        "DINOv2 base: features of images, patches of 14 pixels, 12 layers",
        vit(768, 12, **DINOV2),
        (image(224),),
    ),
    plain(
        "dinov3-small",
        "facebook/dinov3-vits16-pretrain-lvd1689m",
        21_596_544,
        "DINOv3ViTModel",
        "dinov3_vit",
        "DINOv3 small: features of images, rotary positions, 12 layers",
        vit(384, 6, intermediate_size=1536, **DINOV3),
        (image(224),),
    ),
    plain(
        "dinov3-base",
        "facebook/dinov3-vitb16-pretrain-lvd1689m",
        85_660_416,
        "DINOv3ViTModel",
        "dinov3_vit",
        "DINOv3 base: features of images, rotary positions, 12 layers",
        vit(768, 12, intermediate_size=3072, **DINOV3),
        (image(224),),
    ),
    plain(
        "depth-anything-v2-small",
        "depth-anything/Depth-Anything-V2-Small-hf",
        24_785_089,
        "DepthAnythingForDepthEstimation",
        "depth_anything",
        "Depth Anything V2 small: how far everything is in an image",
        {
            "backbone_config": {
                "model_type": "dinov2",
                **vit(384, 6, **DINOV2),
                "out_features": STAGES,
                "apply_layernorm": True,
                "reshape_hidden_states": False,
            },
            "reassemble_hidden_size": 384,
            "neck_hidden_sizes": [48, 96, 192, 384],
            "fusion_hidden_size": 64,
        },
        (image(518, 686),),
        batch_size=FEW,
    ),
    plain(
        "sam2-tiny",
        "facebook/sam2.1-hiera-tiny",
        31_440_721,
        "Sam2Model",
        "sam2",
        "SAM 2.1 with Hiera tiny: a mask for a point in an image",
        {"vision_config": {"backbone_config": {"model_type": "sam2_hiera_det_model"}}},
        (
            image(1024),
            Field("input_points", "floats", ("batch", 1, 1, 2)),
            Field("input_labels", "integers", ("batch", 1, 1), 2, {"low": 1}),
        ),
        batch_size=FEW,
    ),
    detector(
        "rt-detr",
        "PekingU/rtdetr_r50vd",
        42_891_372,
        "RTDetrForObjectDetection",
        "rt_detr",
        "RT-DETR with a ResNet-50: object detection in real time",
        {},
    ),
    plain(
        "grounding-dino-tiny",
        "IDEA-Research/grounding-dino-tiny",
        172_250_626,
        "GroundingDinoForObjectDetection",
        "grounding_dino",
        "Grounding DINO tiny: finds in an image what a text names",
        {},
        (
            image(800, 1066),
            tokens(30522),
            zeros("token_type_ids"),
            padding_mask(),
            Field("pixel_mask", "ones", ("batch", 800, 1066)),
        ),
        batch_size=FEW,
        seq_len=16,
        longest=256,
    ),
    pair(
        "clip-vit-large",
        "openai/clip-vit-large-patch14",
        427_616_513,
        "CLIPModel",
        "clip",
        "CLIP with a ViT large: how well texts and images match",
        {
            "projection_dim": 768,
            "text_config": vit(768, 12, vocab_size=49408, intermediate_size=3072),
            "vision_config": {
                "hidden_size": 1024,
                "intermediate_size": 4096,
                "num_hidden_layers": 24,
                "num_attention_heads": 16,
                "image_size": 224,
                "patch_size": 14,
            },
        },
        (tokens(49408, pad=49407), image(224), padding_mask()),
        77,
    ),
    pair(
        "siglip2-base",
        "google/siglip2-base-patch16-224",
        375_187_970,
        "SiglipModel",
        "siglip",
        "SigLIP 2 base: how well texts and images match",
        {
            "text_config": vit(768, 12, vocab_size=256000),
            "vision_config": vit(768, 12, image_size=224, patch_size=16),
        },
        (tokens(256000), image(224)),
        64,
    ),
    pair(
        "siglip2-base-naflex",
        "google/siglip2-base-patch16-naflex",
        375_234_050,
        "Siglip2Model",
        "siglip2",
        "SigLIP 2 base, any aspect: how well texts and images match",
        {"text_config": vit(768, 12, vocab_size=256000), "vision_config": vit(768, 12, patch_size=16, num_patches=256)},
        (
            tokens(256000),
            Field("pixel_values", "floats", ("batch", 256, 768)),
            Field("pixel_attention_mask", "ones", ("batch", 256)),
            Field("spatial_shapes", "rows", ("batch", 2), settings={"row": (16, 16)}),
        ),
        64,
    ),
)
