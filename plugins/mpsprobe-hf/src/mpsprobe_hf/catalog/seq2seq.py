"""Text to text: encoder and decoder, run with the language-model head in both phases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.catalog.entry import Architecture, Entry
from mpsprobe_hf.catalog.fields import padding_mask, token_labels, tokens


def sequence_to_sequence(
    model_class: str, config: Mapping[str, Any], *, parameters: int, pad: int = 0, **fields: Any
) -> Entry:
    """A model that reads ``seq`` tokens and writes as many; ``fields`` are the others of the ``Entry``.

    Inference gets the decoder's ids as a step of teacher forcing does; training gets labels only,
    from which the model makes them.
    """
    vocabulary = config["vocab_size"]
    source = (tokens(vocabulary, pad=pad), padding_mask())
    target = tokens(vocabulary, "decoder_input_ids", pad=pad)
    inference = Architecture(model_class, (*source, target), parameters)
    training = Architecture(model_class, (*source, token_labels(vocabulary)), parameters)
    return Entry(family="text", config=config, inference=inference, training=training, seq_len=128, **fields)


ENTRIES = (
    sequence_to_sequence(
        "T5ForConditionalGeneration",
        {"vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8}
        | {"decoder_start_token_id": 0},
        name="t5-small",
        checkpoint="google-t5/t5-small",
        model_type="t5",
        parameters=60_506_624,
        summary="T5 small: 6 + 6 layers with relative positions",
        longest=512,
    ),
    sequence_to_sequence(
        "T5ForConditionalGeneration",
        {
            "vocab_size": 32128,
            "d_model": 768,
            "d_kv": 64,
            "d_ff": 2048,
            "num_layers": 12,
            "num_heads": 12,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
            "decoder_start_token_id": 0,
        },
        name="flan-t5-base",
        checkpoint="google/flan-t5-base",
        model_type="t5",
        parameters=247_577_856,
        summary="Flan-T5 base: 12 + 12 layers, gated GELU",
        longest=512,
        # The checkpoint brings a head of its own, and transformers then leaves it untied.
        untied=("lm_head",),
    ),
    sequence_to_sequence(
        "BartForConditionalGeneration",
        {
            "vocab_size": 50265,
            "d_model": 768,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_attention_heads": 12,
            "decoder_attention_heads": 12,
            "encoder_ffn_dim": 3072,
            "decoder_ffn_dim": 3072,
            "max_position_embeddings": 1024,
        },
        name="bart-base",
        checkpoint="facebook/bart-base",
        model_type="bart",
        parameters=139_420_416,
        summary="BART base: 6 + 6 layers",
        longest=1024,
        pad=1,
    ),
    sequence_to_sequence(
        "PegasusForConditionalGeneration",
        {
            "vocab_size": 96103,
            "d_model": 1024,
            "encoder_layers": 16,
            "decoder_layers": 16,
            "encoder_attention_heads": 16,
            "decoder_attention_heads": 16,
            "encoder_ffn_dim": 4096,
            "decoder_ffn_dim": 4096,
            "max_position_embeddings": 512,
            "activation_function": "relu",
            "scale_embedding": True,
        },
        name="pegasus",
        checkpoint="google/pegasus-xsum",
        model_type="pegasus",
        parameters=569_748_480,
        summary="PEGASUS for summaries (XSum): 16 + 16 layers",
        longest=512,
    ),
)
