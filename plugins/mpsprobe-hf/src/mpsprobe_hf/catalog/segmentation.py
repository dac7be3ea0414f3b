"""Image models that answer with boxes or masks."""

from __future__ import annotations

from mpsprobe_hf.catalog.entry import Architecture, Entry, Field
from mpsprobe_hf.catalog.fields import image

HUNGARIAN = ("scipy",)
"""Matching predictions with targets is scipy's ``linear_sum_assignment``."""

DETR_SIZE = (800, 1066)
"""Pixels of an image of 480 by 640 after DETR's image processor: shorter side 800, longer at most 1333."""

OBJECTS = 5
"""Objects in each image that a detector is trained with."""

RESNET_50 = {
    "model_type": "resnet",
    "embedding_size": 64,
    "hidden_sizes": [256, 512, 1024, 2048],
    "depths": [3, 4, 6, 3],
    "layer_type": "bottleneck",
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}

SWIN_TINY = {
    "model_type": "swin",
    "image_size": 224,
    "patch_size": 4,
    "embed_dim": 96,
    "depths": [2, 2, 6, 2],
    "num_heads": [3, 6, 12, 24],
    "window_size": 7,
    "drop_path_rate": 0.3,
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}


def _pixel_mask(height: int, width: int) -> Field:
    return Field("pixel_mask", "ones", ("batch", height, width))


DETR_INPUTS = (image(*DETR_SIZE), _pixel_mask(*DETR_SIZE))
MASK2FORMER_INPUTS = (image(384), _pixel_mask(384, 384))
FEW = {"inference": 1, "training": 2}

ENTRIES = (
    Entry(
        name="detr",
        family="vision",
        summary="DETR: object detection with a ResNet-50 and a transformer",
        checkpoint="facebook/detr-resnet-50",
        model_type="detr",
        config={
            "use_timm_backbone": False,
            "use_pretrained_backbone": False,
            "backbone_config": RESNET_50,
            "num_queries": 100,
            "d_model": 256,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_ffn_dim": 2048,
            "decoder_ffn_dim": 2048,
            "num_labels": 91,
        },
        inference=Architecture("DetrForObjectDetection", DETR_INPUTS, 41_524_768),
        training=Architecture(
            "DetrForObjectDetection",
            (*DETR_INPUTS, Field("labels", "boxes", ("batch", OBJECTS), 91)),
            41_524_768,
            # Its conversions of boxes are behind transformers' check for Pillow.
            requires=(*HUNGARIAN, "pillow"),
        ),
        batch_size=FEW,
    ),
    Entry(
        name="mask2former",
        family="vision",
        summary="Mask2Former with a Swin tiny backbone: instance segmentation",
        checkpoint="facebook/mask2former-swin-tiny-coco-instance",
        model_type="mask2former",
        config={"backbone_config": SWIN_TINY, "num_queries": 100, "num_labels": 80},
        inference=Architecture(
            "Mask2FormerForUniversalSegmentation", MASK2FORMER_INPUTS, 47_423_179, requires=HUNGARIAN
        ),
        training=Architecture(
            "Mask2FormerForUniversalSegmentation",
            (
                *MASK2FORMER_INPUTS,
                Field("mask_labels", "mask_lists", ("batch", OBJECTS, 384, 384)),
                Field("class_labels", "class_lists", ("batch", OBJECTS), 80),
            ),
            47_423_179,
            requires=HUNGARIAN,
        ),
        batch_size=FEW,
    ),
    Entry(
        name="segformer",
        family="vision",
        summary="SegFormer B0: semantic segmentation, 150 classes of ADE20K",
        checkpoint="nvidia/segformer-b0-finetuned-ade-512-512",
        model_type="segformer",
        config={
            "depths": [2, 2, 2, 2],
            "hidden_sizes": [32, 64, 160, 256],
            "num_attention_heads": [1, 2, 5, 8],
            "sr_ratios": [8, 4, 2, 1],
            "decoder_hidden_size": 256,
            "num_labels": 150,
        },
        inference=Architecture("SegformerForSemanticSegmentation", (image(512),), 3_752_694),
        training=Architecture(
            "SegformerForSemanticSegmentation",
            (image(512), Field("labels", "integers", ("batch", 512, 512), 150)),
            3_752_694,
        ),
    ),
    Entry(
        name="sam",
        family="vision",
        summary="Segment Anything with a ViT base: a mask for a point",
        checkpoint="facebook/sam-vit-base",
        model_type="sam",
        config={
            "vision_config": {
                "hidden_size": 768,
                "num_hidden_layers": 12,
                "num_attention_heads": 12,
                "image_size": 1024,
                "patch_size": 16,
                "window_size": 14,
                "global_attn_indexes": [2, 5, 8, 11],
            },
        },
        inference=Architecture(
            "SamModel",
            (image(1024), Field("input_points", "floats", ("batch", 1, 1, 2))),
            93_735_728,
            notes=(
                "SamProcessor returns input_points in float64, which MPS cannot hold; they are float32 here, "
                'as after inputs["input_points"].float()',
            ),
        ),
        training=Architecture(
            "SamModel",
            (image(1024), Field("input_points", "floats", ("batch", 1, 1, 2))),
            93_735_728,
            loss="mean",
            notes=(
                "SAM has no loss in transformers: trained with the mean of its outputs",
                "SamProcessor returns input_points in float64, which MPS cannot hold; they are float32 here",
            ),
        ),
        batch_size=FEW,
    ),
)
