"""Models that read images and text."""

from __future__ import annotations

from typing import Any

from mpsprobe_hf.catalog.entry import Architecture, Entry, Field
from mpsprobe_hf.catalog.fields import image, padding_mask, tokens

RETURN_LOSS = Field("return_loss", "constant", (), settings={"value": True})
IMAGE_TOKENS = 576
"""Tokens of an image in LLaVA 1.5: (336 / 14) squared."""
QUERY_TOKENS = 32
"""Tokens of an image in BLIP-2."""

CLIP_INPUTS = (tokens(49408, pad=49407), image(224), padding_mask())
SIGLIP_INPUTS = (tokens(32000, pad=1), image(224))
BLIP_LEAD: dict[str, Any] = {"leads": ((50265, QUERY_TOKENS),), "keep": QUERY_TOKENS}
LLAVA_LEAD: dict[str, Any] = {"leads": ((32000, IMAGE_TOKENS),), "keep": IMAGE_TOKENS}


def _captioned(vocabulary: int, side: int, pad: int, lead: dict[str, Any]) -> tuple[Field, ...]:
    keep = {"keep": lead["keep"]}
    return (
        tokens(vocabulary, pad=pad, **lead),
        Field("attention_mask", "padding_mask", ("batch", "seq"), settings=keep),
        image(side),
    )


BLIP_INPUTS = _captioned(50304, 224, 1, BLIP_LEAD)
LLAVA_INPUTS = _captioned(32064, 336, 32001, LLAVA_LEAD)

ENTRIES = (
    Entry(
        name="clip",
        family="multimodal",
        summary="CLIP with a ViT base: how well texts and images match",
        checkpoint="openai/clip-vit-base-patch32",
        model_type="clip",
        config={
            "projection_dim": 512,
            "text_config": {
                "vocab_size": 49408,
                "hidden_size": 512,
                "intermediate_size": 2048,
                "num_hidden_layers": 12,
                "num_attention_heads": 8,
            },
            "vision_config": {
                "hidden_size": 768,
                "intermediate_size": 3072,
                "num_hidden_layers": 12,
                "num_attention_heads": 12,
                "image_size": 224,
                "patch_size": 32,
            },
        },
        inference=Architecture("CLIPModel", CLIP_INPUTS, 151_277_313),
        training=Architecture("CLIPModel", (*CLIP_INPUTS, RETURN_LOSS), 151_277_313),
        seq_len=77,
        longest=77,
    ),
    Entry(
        name="siglip",
        family="multimodal",
        summary="SigLIP base: CLIP with a sigmoid loss",
        checkpoint="google/siglip-base-patch16-224",
        model_type="siglip",
        config={
            "text_config": {"vocab_size": 32000, "hidden_size": 768, "num_hidden_layers": 12},
            "vision_config": {"hidden_size": 768, "num_hidden_layers": 12, "image_size": 224, "patch_size": 16},
        },
        inference=Architecture("SiglipModel", SIGLIP_INPUTS, 203_155_970),
        training=Architecture("SiglipModel", (*SIGLIP_INPUTS, RETURN_LOSS), 203_155_970),
        seq_len=64,
        longest=64,
    ),
    Entry(
        name="blip-2",
        family="multimodal",
        summary="BLIP-2 with OPT 2.7B: text about an image",
        checkpoint="Salesforce/blip2-opt-2.7b",
        model_type="blip_2",
        config={
            "vision_config": {"hidden_size": 1408, "num_hidden_layers": 39, "image_size": 224, "patch_size": 14},
            "qformer_config": {"hidden_size": 768, "num_hidden_layers": 12, "encoder_hidden_size": 1408},
            "text_config": {
                "model_type": "opt",
                "vocab_size": 50304,
                "hidden_size": 2560,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "ffn_dim": 10240,
                "word_embed_proj_dim": 2560,
                "max_position_embeddings": 2048,
            },
            "num_query_tokens": QUERY_TOKENS,
            "image_token_index": 50265,
        },
        inference=Architecture("Blip2ForConditionalGeneration", BLIP_INPUTS, 3_744_761_856),
        training=Architecture(
            "Blip2ForConditionalGeneration",
            (*BLIP_INPUTS, Field("labels", "token_labels", ("batch", "seq"), 50304, {"keep": QUERY_TOKENS})),
            3_744_761_856,
        ),
        seq_len=64,
        shortest=QUERY_TOKENS + 1,
        longest=2048,
    ),
    Entry(
        name="llava",
        family="multimodal",
        summary="LLaVA 1.5, 7 billion parameters: chat about an image",
        checkpoint="llava-hf/llava-1.5-7b-hf",
        model_type="llava",
        config={
            "image_token_index": 32000,
            "image_seq_length": IMAGE_TOKENS,
            "vision_feature_layer": -2,
            "vision_config": {
                "model_type": "clip_vision_model",
                "hidden_size": 1024,
                "intermediate_size": 4096,
                "num_hidden_layers": 24,
                "num_attention_heads": 16,
                "image_size": 336,
                "patch_size": 14,
                "projection_dim": 768,
            },
            "text_config": {
                "model_type": "llama",
                "vocab_size": 32064,
                "hidden_size": 4096,
                "intermediate_size": 11008,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "max_position_embeddings": 4096,
                "rms_norm_eps": 1e-5,
            },
        },
        inference=Architecture("LlavaForConditionalGeneration", LLAVA_INPUTS, 7_063_427_072),
        training=Architecture(
            "LlavaForConditionalGeneration",
            (*LLAVA_INPUTS, Field("labels", "token_labels", ("batch", "seq"), 32064, {"keep": IMAGE_TOKENS})),
            7_063_427_072,
        ),
        seq_len=640,
        shortest=IMAGE_TOKENS + 1,
        longest=4096,
    ),
)
