"""Corrections for models of images and video. The values are those of the checkpoint that the comment names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.transformers.inputs.family import Family
from mpsprobe_hf.transformers.inputs.forms import BY_PATCH, GRID, TEXT, Argument

CELLS = Argument("floats", ("grid*batch", "cell", "cell", "channels"), with_=TEXT)
"""Squares of the patches that become one token, the channels last."""
FOURFOLD: Mapping[str, int] = {"grid_height": 16, "grid_width": 16}
"""Two times, two by two patches are merged."""
SMOL: Mapping[str, Any] = {"image_size": 512, "patch_size": 16}

PIXEL_VALUES = ("pixel_values",)
STAGES = ["stage1", "stage2", "stage3", "stage4"]
BLOCKS = [
    [[3, 96, 96, 1, True]],
    [[3, 96, 96, 2, False], [3, 96, 96, 1, False]],
    [[3, 96, 192, 2, False], *([3, 192, 192, 1, odd] for odd in (True, False, True, False, True, False))],
    [[3, 192, 384, 2, False], [3, 384, 384, 1, True], [3, 384, 384, 1, False]],
]
"""Kernel, channels, stride, and whether channels are weighed: by default those that read lines of text."""
OMNI: Mapping[str, Any] = {
    "vision_start_token_id": 151652,
    "vision_end_token_id": 151653,
    "audio_start_token_id": 151647,
    "audio_end_token_id": 151648,
}
"""Tokens around images and sounds, in Qwen/Qwen2.5-Omni-7B."""
EMU3: Mapping[str, int] = {
    "<image>": 151646,
    "<|extra_200|>": 151846,
    **{f"<|visual token {code:06d}|>": 151854 + code for code in range(32768)},
}
"""Ids of the codes of an image."""
INTRACLASS: Mapping[str, Any] = {
    "reduce_channel": [1, 1, 0],
    "return_channel": [1, 1, 0],
    "vertical_long_to_small_conv_longratio": [[7, 1], [1, 1], [3, 0]],
    "vertical_long_to_small_conv_midratio": [[5, 1], [1, 1], [2, 0]],
    "vertical_long_to_small_conv_shortratio": [[3, 1], [1, 1], [1, 0]],
    "horizontal_small_to_long_conv_longratio": [[1, 7], [1, 1], [0, 3]],
    "horizontal_small_to_long_conv_midratio": [[1, 5], [1, 1], [0, 2]],
    "horizontal_small_to_long_conv_shortratio": [[1, 3], [1, 1], [0, 1]],
    "symmetric_conv_long_longratio": [[7, 7], [1, 1], [3, 3]],
    "symmetric_conv_long_midratio": [[5, 5], [1, 1], [2, 2]],
    "symmetric_conv_long_shortratio": [[3, 3], [1, 1], [1, 1]],
}
"""Kernel, stride and padding."""


def _chameleon(code: int) -> str:
    """The name of the token of one code of an image: its digits as letters."""
    return "IMGIMG" + "".join("ABCDEFGHIJ"[int(digit)] for digit in str(code)) + "Z"


PICTURES: Mapping[str, Family] = {
    "aria": Family(
        config={"vision_config": {"image_size": 980, "patch_size": 14}}, measures={"height": 490, "width": 490}
    ),
    "depth_pro": Family(measures={"height": 1536, "width": 1536}),  # apple/DepthPro-hf
    "dots3_note": Family(arguments={"input_features": Argument("floats", ("batch", "mels", "frames"), with_=TEXT)}),
    "gemma3": Family(config={"vision_config": {"image_size": 896, "patch_size": 14}}),  # google/gemma-3-4b-it
    "granite_docling": Family(arguments={"pixel_attention_mask": Argument("flags", ("batch", "images"))}),
    "inkling2": Family(arguments={"pixel_values": CELLS}),
    "inkling2_vision": Family(arguments={"pixel_values": CELLS}),
    "llama4": Family(
        config={
            "vision_config": {
                "hidden_size": 1408,
                "image_size": 336,
                "projector_input_dim": 4096,
                "vision_output_dim": 4096,
            }
        }
    ),  # meta-llama/Llama-4-Scout-17B-16E
    "minicpmv4_6": Family(measures=FOURFOLD),
    "minicpmv4_7": Family(measures=FOURFOLD),
    "modernvbert": Family(config={"vision_config": SMOL}),  # ModernVBERT/modernvbert
    "ultravbert": Family(config={"vision_config": SMOL}),
    "sapiens2": Family(
        config={"head_config": {"upsample_out_channels": [768] * 4, "conv_out_channels": [768, 768]}}
    ),  # the widths of facebook/sapiens-seg-0.3b, of the first release; those of the second were not found
    "sam3_video": Family(config={"max_num_objects": 2}),  # what is found depends on values: all 200 queries would be
    "seggpt": Family(measures={"height": 448}),  # the prompt stands above the image
    "ovis2": Family(config={"hidden_size": 4096}),  # that of its text model, as in every checkpoint
    "qwen2_vl": Family(config={"vision_config": {"hidden_size": 8192}}),  # Qwen/Qwen2-VL-72B-Instruct
    "t5gemma2_encoder": Family(config={"vision_config": {"image_size": 896, "patch_size": 14}}),
    "gemma4_unified": Family(
        config={"text_config": {"hidden_size": 3840}, "vision_config": {}, "audio_config": {}}
    ),  # features have this width by default
    "t5gemma2": Family(config={"encoder": {"vision_config": {"image_size": 896, "patch_size": 14}}}),
    "aya_vision": Family(
        config={"vision_config": {"num_attention_heads": 16, "image_size": 364}}
    ),  # CohereLabs/aya-vision-8b
    "chameleon": Family(
        config={"vocabulary_map": {"<image>": 8711, **{_chameleon(code): 4 + code for code in range(8192)}}}
    ),
    "deepseek_ocr2": Family(
        config={
            "text_config": {
                "num_hidden_layers": 12,
                "num_experts_per_tok": 6,
                "mlp_layer_types": ["dense"] + ["sparse"] * 11,
                "hidden_size": 1280,
                "intermediate_size": 6848,
                "moe_intermediate_size": 896,
                "num_attention_heads": 10,
                "num_key_value_heads": 10,
            },
            "vision_config": {
                "encoder_config": {
                    "hidden_size": 896,
                    "intermediate_size": 4864,
                    "num_hidden_layers": 24,
                    "num_attention_heads": 14,
                    "num_key_value_heads": 2,
                }
            },
        },
        measures={"height": 1024, "width": 1024},
    ),  # deepseek-ai/DeepSeek-OCR-2
    "edgetam": Family(measures={"height": 1024, "width": 1024}),  # four times its backbone_feature_sizes
    "edgetam_vision_model": Family(
        config={
            "backbone_config": {
                "model_type": "timm_wrapper",
                "architecture": "repvit_m1",
                "num_classes": 1000,
                "model_args": {"in_chans": 3, "features_only": True, "out_indices": [0, 1, 2, 3]},
            }
        }
    ),  # yonigozlan/EdgeTAM-hf; the default of the class misspells the name of the architecture
    "emu3": Family(config={"vocabulary_map": EMU3}),
    "glm_image": Family(
        arguments={
            "image_grid_thw": Argument("rows", ("2*batch", 3), settings={"row": GRID}, with_=PIXEL_VALUES),
            "images_per_sample": Argument("rows", ("batch",), settings={"row": 2}, with_=PIXEL_VALUES),
        }
    ),  # the second is the grid of the image that is made
    "granite4_vision": Family(
        config={
            "downsample_rate": "4/8",
            "deepstack_layer_map": [[3, 0], [6, 3], [9, 6]],
            "vision_config": {"image_size": 336, "patch_size": 14, "hidden_size": 768},
        }
    ),
    "inkling_mm_model": Family(
        arguments={
            "pixel_values": Argument(
                "floats", ("grid*batch", "temporal_patch", "patch", "patch", "channels"), with_=TEXT
            )
        }
    ),
    "instructblipvideo": Family(
        config={"video_token_index": 32000}
    ),  # the first that is no word, as in Salesforce/instructblip-vicuna-7b
    "lightglue": Family(
        config={"depth_confidence": -1.0, "width_confidence": -1.0}
    ),  # how early it stops depends on values
    "lw_detr": Family(config={"projector_scale_factors": [1.0]}),  # AnnaZhang/lwdetr_small_60e_coco
    "molmo2": Family(
        config={"adapter_config": {"text_hidden_size": 4096}},
        arguments={
            "pixel_values": Argument("floats", ("batch", 729, 588), with_=TEXT),
            "image_token_pooling": Argument("integers", ("169*batch", 4), 729, with_=PIXEL_VALUES),
            "image_grids": Argument("rows", ("batch", 4), settings={"row": (13, 13, 0, 0)}, with_=PIXEL_VALUES),
        },
    ),  # one crop of 27 x 27 patches, of which four make a token
    "neomme": Family(arguments={"pixel_values": Argument("floats", BY_PATCH, with_=TEXT)}),
    "pe_audio_video": Family(more=("pixel_values_videos",)),  # two of text, video and sound would do
    "perception_lm": Family(
        config={
            "projector_pooling_ratio": 2,
            "vision_config": {
                "architecture": "vit_pe_core_large_patch14_336",
                "model_args": {
                    "embed_dim": 1024,
                    "img_size": [448, 448],
                    "depth": 23,
                    "global_pool": "",
                    "use_post_transformer_norm": False,
                    "init_values": 0.1,
                    "ref_feat_shape": [32, 32],
                },
            },
        }
    ),  # facebook/Perception-LM-1B
    "phi4_multimodal": Family(
        measures={"image_tokens": 545},
        arguments={
            "image_pixel_values": Argument("floats", ("batch", 2, 3, 448, 448), with_=TEXT),
            "image_sizes": Argument("rows", ("batch", 2), settings={"row": (448, 448)}, with_=("image_pixel_values",)),
            "image_attention_mask": Argument("ones", ("batch", 2, 32, 32), with_=("image_pixel_values",)),
        },
    ),  # one crop, and the whole image
    "pi0": Family(
        arguments={
            "action_embeds": Argument("floats", ("batch", 51, 1024)),
            "pixel_attention_mask": Argument("flags", ("batch", "images"), with_=PIXEL_VALUES),
        }
    ),  # the state and 50 actions
    "pp_ocrv5_server_det": Family(
        config={
            "kernel_list": [3, 2, 2],
            "scale_factor_list": [1, 2, 4, 8],
            "intraclass_block_config": INTRACLASS,
        }
    ),
    "pp_ocrv6_medium_det": Family(
        config={
            "backbone_config": {"model_type": "pp_lcnet_v4", "out_features": STAGES, "block_configs": BLOCKS},
            "kernel_list": [3, 2, 2],
            "scale_factor_list": [1, 2, 4, 8],
            "intraclass_block_config": INTRACLASS,
        }
    ),
    "pp_ocrv6_small_det": Family(
        config={
            "backbone_config": {"model_type": "pp_lcnet_v4", "out_features": STAGES, "block_configs": BLOCKS},
            "layer_list_out_channels": [96, 96, 192, 384],
        }
    ),
    "rf_detr": Family(measures={"height": 560, "width": 560}),  # Roboflow/rf-detr-base
    "qwen3_omni_moe_thinker": Family(
        config={**OMNI, "text_config": {"num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128}}
    ),  # Qwen/Qwen3-Omni-30B-A3B-Instruct
    "step3p7": Family(config={"text_config": {"sliding_window": 512}}),
    "timm_backbone": Family(config={"backbone": "resnet50"}),
    "uvdoc": Family(
        config={
            "backbone_config": {
                "model_type": "uvdoc_backbone",
                "out_features": [*STAGES, "stage5", "stage6"],
            }
        }
    ),
    "qwen2_5_omni_thinker": Family(config=OMNI),
}
