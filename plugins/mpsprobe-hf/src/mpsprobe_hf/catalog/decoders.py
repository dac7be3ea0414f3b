"""Text decoders: language models, run with their head in both phases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.catalog.entry import Architecture, Entry
from mpsprobe_hf.catalog.fields import padding_mask, token_labels, tokens


def decoder(
    name: str,
    checkpoint: str,
    model_class: str,
    config: Mapping[str, Any],
    *,
    model_type: str,
    config_class: str,
    parameters: int,
    summary: str,
    longest: int,
) -> Entry:
    """A causal language model; prompts are padded on the left, training texts on the right.

    Args:
        name: what the user types.
        checkpoint: the published model.
        model_class: with its language-model head.
        config: the checkpoint's configuration; ``vocab_size`` is among it.
        model_type, config_class: where it lives in transformers.
        parameters: head included.
        summary: one line.
        longest: tokens; 0 where nothing limits them.
    """
    ids = tokens(config["vocab_size"])
    return Entry(
        name=name,
        family="text",
        summary=summary,
        checkpoint=checkpoint,
        model_type=model_type,
        config_class=config_class,
        config=config,
        inference=Architecture(model_class, (ids, padding_mask(left=True)), parameters),
        training=Architecture(model_class, (ids, padding_mask(), token_labels(config["vocab_size"])), parameters),
        seq_len=128,
        longest=longest,
    )


ENTRIES = (
    decoder(
        "gpt2",
        "openai-community/gpt2",
        "GPT2LMHeadModel",
        {"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12},
        model_type="gpt2",
        config_class="GPT2Config",
        parameters=124_439_808,
        summary="GPT-2, the smallest: decoder of 12 layers",
        longest=1024,
    ),
    decoder(
        "llama-3-8b",
        "meta-llama/Meta-Llama-3-8B",
        "LlamaForCausalLM",
        {
            "vocab_size": 128256,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-5,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
            "tie_word_embeddings": False,
        },
        model_type="llama",
        config_class="LlamaConfig",
        parameters=8_030_261_248,
        summary="Llama 3, 8 billion parameters: decoder of 32 layers",
        longest=8192,
    ),
    decoder(
        "llama-3-70b",
        "meta-llama/Meta-Llama-3-70B",
        "LlamaForCausalLM",
        {
            "vocab_size": 128256,
            "hidden_size": 8192,
            "intermediate_size": 28672,
            "num_hidden_layers": 80,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-5,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
            "tie_word_embeddings": False,
        },
        model_type="llama",
        config_class="LlamaConfig",
        parameters=70_553_706_496,
        summary="Llama 3, 70 billion parameters: decoder of 80 layers",
        longest=8192,
    ),
)
