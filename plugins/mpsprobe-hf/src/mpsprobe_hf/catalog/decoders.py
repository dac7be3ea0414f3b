"""Text decoders: language models, run with their head in both phases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.catalog.entry import Architecture, Entry
from mpsprobe_hf.catalog.fields import padding_mask, token_labels, tokens


def decoder(model_class: str, config: Mapping[str, Any], *, parameters: int, pad: int = 0, **fields: Any) -> Entry:
    """A causal language model; prompts are padded on the left, training texts on the right.

    Args:
        model_class: with its language-model head.
        config: the checkpoint's configuration; ``vocab_size`` is among it.
        parameters: head included.
        pad: the id of the padding token, or of the one that users pad with.
        fields: the others of the ``Entry``.
    """
    ids = tokens(config["vocab_size"], pad=pad)
    left = tokens(config["vocab_size"], pad=pad, left=True)
    inference = Architecture(model_class, (left, padding_mask(left=True)), parameters)
    training = Architecture(model_class, (ids, padding_mask(), token_labels(config["vocab_size"])), parameters)
    return Entry(family="text", config=config, inference=inference, training=training, **{"seq_len": 128, **fields})


ENTRIES = (
    decoder(
        "GPT2LMHeadModel",
        {"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12},
        name="gpt2",
        checkpoint="openai-community/gpt2",
        model_type="gpt2",
        parameters=124_439_808,
        summary="GPT-2, the smallest: decoder of 12 layers",
        longest=1024,
        pad=50256,
    ),
    decoder(
        "GPT2LMHeadModel",
        {"vocab_size": 50257, "n_positions": 1024, "n_embd": 1600, "n_layer": 48, "n_head": 25},
        name="gpt2-xl",
        checkpoint="openai-community/gpt2-xl",
        model_type="gpt2",
        parameters=1_557_611_200,
        summary="GPT-2, the largest: decoder of 48 layers",
        longest=1024,
        pad=50256,
    ),
    decoder(
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
        name="llama-3-8b",
        checkpoint="meta-llama/Meta-Llama-3-8B",
        model_type="llama",
        parameters=8_030_261_248,
        summary="Llama 3, 8 billion parameters: decoder of 32 layers",
        longest=8192,
        pad=128001,
    ),
    decoder(
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
        name="llama-3-70b",
        checkpoint="meta-llama/Meta-Llama-3-70B",
        model_type="llama",
        parameters=70_553_706_496,
        summary="Llama 3, 70 billion parameters: decoder of 80 layers",
        longest=8192,
        pad=128001,
    ),
    decoder(
        "Qwen2ForCausalLM",
        {
            "vocab_size": 152064,
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "max_position_embeddings": 131072,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
            "use_sliding_window": False,
        },
        name="qwen2.5-7b",
        checkpoint="Qwen/Qwen2.5-7B",
        model_type="qwen2",
        parameters=7_615_616_512,
        summary="Qwen 2.5, 7 billion parameters: decoder of 28 layers",
        longest=131072,
        pad=151643,
    ),
    decoder(
        "MistralForCausalLM",
        {
            "vocab_size": 32000,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-5,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            "sliding_window": 4096,
        },
        name="mistral-7b",
        checkpoint="mistralai/Mistral-7B-v0.1",
        model_type="mistral",
        parameters=7_241_732_096,
        summary="Mistral 7B v0.1: decoder of 32 layers with a sliding window",
        longest=32768,
        pad=2,
    ),
    decoder(
        "Gemma2ForCausalLM",
        {
            "vocab_size": 256000,
            "hidden_size": 3584,
            "intermediate_size": 14336,
            "num_hidden_layers": 42,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 256,
            "query_pre_attn_scalar": 256,
            "max_position_embeddings": 8192,
            "sliding_window": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
        name="gemma-2-9b",
        checkpoint="google/gemma-2-9b",
        model_type="gemma2",
        parameters=9_241_705_984,
        summary="Gemma 2, 9 billion parameters: decoder of 42 layers with soft caps",
        longest=8192,
    ),
    decoder(
        "Phi3ForCausalLM",
        {
            "vocab_size": 32064,
            "hidden_size": 3072,
            "intermediate_size": 8192,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "max_position_embeddings": 4096,
            "original_max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            "sliding_window": 2047,
        },
        name="phi-3",
        checkpoint="microsoft/Phi-3-mini-4k-instruct",
        model_type="phi3",
        parameters=3_821_079_552,
        summary="Phi-3 mini, 4k context: decoder of 32 layers",
        longest=4096,
        pad=32000,
    ),
)
