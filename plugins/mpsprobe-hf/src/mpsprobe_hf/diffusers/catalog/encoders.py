"""Text and image encoders that several pipelines share, as the ``config.json`` of their checkpoints has them."""

from __future__ import annotations

from mpsprobe_hf.diffusers.catalog.entry import Component

_CLIP_L = {
    "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12,
    "projection_dim": 768, "eos_token_id": 2, "bos_token_id": 0,
}  # fmt: skip
_CLIP_BIG_G = {
    "hidden_size": 1280, "intermediate_size": 5120, "num_attention_heads": 20, "num_hidden_layers": 32,
    "projection_dim": 1280, "hidden_act": "gelu", "eos_token_id": 2, "bos_token_id": 0,
}  # fmt: skip
_T5_XXL = {
    "d_model": 4096, "d_ff": 10240, "d_kv": 64, "num_heads": 64, "num_layers": 24, "feed_forward_proj": "gated-gelu",
}  # fmt: skip

CLIP_L = Component("CLIPTextModel", _CLIP_L)
"""openai/clip-vit-large-patch14."""
CLIP_L_PROJECTED = Component("CLIPTextModelWithProjection", _CLIP_L)
CLIP_BIG_G = Component("CLIPTextModelWithProjection", _CLIP_BIG_G)
"""laion/CLIP-ViT-bigG-14-laion2B-39B-b160k."""
OPEN_CLIP_H = Component(
    "CLIPTextModel",
    {
        "hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 23,
        "projection_dim": 512, "hidden_act": "gelu", "eos_token_id": 2, "bos_token_id": 0,
    },
)  # fmt: skip
"""laion/CLIP-ViT-H-14-laion2B-s32B-b79K without its last layer, as Stable Diffusion 2 has it."""
CLIP_VISION_H = Component(
    "CLIPVisionModelWithProjection",
    {
        "hidden_size": 1280, "intermediate_size": 5120, "num_attention_heads": 16, "num_hidden_layers": 32,
        "patch_size": 14, "image_size": 224, "projection_dim": 1024, "hidden_act": "gelu",
    },
)  # fmt: skip
T5_XXL = Component("T5EncoderModel", _T5_XXL)
"""google/t5-v1_1-xxl."""
UMT5_XXL = Component("UMT5EncoderModel", {**_T5_XXL, "vocab_size": 256384})
"""google/umt5-xxl."""
GEMMA_2_2B = Component(
    "Gemma2Model",
    {
        "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 256,
    },
)  # fmt: skip
"""google/gemma-2-2b."""
LLAMA_3_8B = Component(
    "LlamaModel",
    {
        "vocab_size": 128320, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}, "rms_norm_eps": 1e-5,
        "bos_token_id": 128000, "eos_token_id": 128001, "pad_token_id": 128258,
    },
    small={"num_hidden_layers": 4},
)  # fmt: skip
"""xtuner/llava-llama-3-8b-v1_1-transformers; HunyuanVideo takes its third layer from the end."""
_QWEN_3 = {
    "vocab_size": 151936, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "num_hidden_layers": 36, "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": 151645,
    "pad_token_id": 151643, "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
}  # fmt: skip
QWEN_3_4B = Component("Qwen3Model", {**_QWEN_3, "hidden_size": 2560, "intermediate_size": 9728})
"""Qwen/Qwen3-4B."""
QWEN_3_4B_LANGUAGE = Component("Qwen3ForCausalLM", QWEN_3_4B.config, small={"num_hidden_layers": 28})
"""The same with its head; FLUX.2 klein takes layers 9, 18 and 27."""
_QWEN_2_5_TEXT = {
    "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 128000, "bos_token_id": 151643,
    "eos_token_id": 151645, "pad_token_id": 151643,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [16, 24, 24]},
}  # fmt: skip
_QWEN_2_5_VISION = {"hidden_size": 1280, "out_hidden_size": 3584, "intermediate_size": 3420, "depth": 32}
QWEN_2_5_VL_7B = Component(
    "Qwen2_5_VLForConditionalGeneration",
    {"text_config": _QWEN_2_5_TEXT, "vision_config": _QWEN_2_5_VISION},
    small={"text_config": {"num_hidden_layers": 2}, "vision_config": {"depth": 1, "fullatt_block_indexes": [0]}},
)
"""Qwen/Qwen2.5-VL-7B-Instruct."""
MISTRAL_SMALL_24B = Component(
    "Mistral3ForConditionalGeneration",
    {
        "text_config": {
            "model_type": "mistral", "vocab_size": 131072, "hidden_size": 5120, "intermediate_size": 32768,
            "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "max_position_embeddings": 131072, "sliding_window": None, "bos_token_id": 1, "eos_token_id": 2,
            "pad_token_id": 11,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000000.0},
        },
        "vision_config": {"model_type": "pixtral", "image_size": 1540, "hidden_size": 1024},
    },
    small={"text_config": {"num_hidden_layers": 31}, "vision_config": {"num_hidden_layers": 1}},
)  # fmt: skip
"""mistralai/Mistral-Small-3.2-24B-Instruct-2506; FLUX.2 takes layers 10, 20 and 30."""
