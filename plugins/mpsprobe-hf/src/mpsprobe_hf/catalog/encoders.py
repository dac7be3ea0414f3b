"""Text encoders. They run as the bare encoder in both phases; training adds the loss of a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.catalog.entry import Architecture, Entry
from mpsprobe_hf.catalog.fields import padding_mask, tokens, zeros

HEADLESS = (
    "trained as the bare encoder, with cross-entropy on the first token's features; "
    "for a head say for example hf:bert/BertForSequenceClassification",
)


def encoder(
    model_class: str,
    config: Mapping[str, Any],
    *,
    parameters: int,
    token_types: bool = True,
    pad: int = 0,
    **fields: Any,
) -> Entry:
    """An encoder that reads up to 512 tokens, where ``fields`` do not say otherwise.

    Args:
        model_class: the bare encoder.
        config: the checkpoint's configuration; ``vocab_size`` is among it.
        parameters: of the bare encoder.
        token_types: whether the checkpoint's tokenizer returns ``token_type_ids``.
        pad: the id of the padding token.
        fields: the others of the ``Entry``.
    """
    types = (zeros("token_type_ids"),) if token_types else ()
    inputs = (tokens(config["vocab_size"], pad=pad), *types, padding_mask())
    inference = Architecture(model_class, inputs, parameters)
    training = Architecture(model_class, inputs, parameters, loss="first_token", notes=HEADLESS)
    shared = {"family": "text", "seq_len": 128, "longest": 512}
    return Entry(config=config, inference=inference, training=training, **{**shared, **fields})


ENTRIES = (
    encoder(
        "BertModel",
        {
            "vocab_size": 30522,
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "max_position_embeddings": 512,
        },
        name="bert-base",
        checkpoint="google-bert/bert-base-uncased",
        model_type="bert",
        parameters=109_482_240,
        summary="BERT base, uncased: encoder of 12 layers",
    ),
    encoder(
        "BertModel",
        {
            "vocab_size": 30522,
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
            "max_position_embeddings": 512,
        },
        name="bert-large",
        checkpoint="google-bert/bert-large-uncased",
        model_type="bert",
        parameters=335_141_888,
        summary="BERT large, uncased: encoder of 24 layers",
    ),
    encoder(
        "DistilBertModel",
        {"vocab_size": 30522, "dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072},
        name="distilbert",
        checkpoint="distilbert/distilbert-base-uncased",
        model_type="distilbert",
        parameters=66_362_880,
        summary="DistilBERT base, uncased: encoder of 6 layers",
        token_types=False,
    ),
    encoder(
        "RobertaModel",
        {
            "vocab_size": 50265,
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "max_position_embeddings": 514,
            "type_vocab_size": 1,
            "layer_norm_eps": 1e-5,
        },
        name="roberta-base",
        checkpoint="FacebookAI/roberta-base",
        model_type="roberta",
        parameters=124_645_632,
        summary="RoBERTa base: encoder of 12 layers",
        token_types=False,
        pad=1,
    ),
    encoder(
        "AlbertModel",
        {
            "vocab_size": 30000,
            "embedding_size": 128,
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "hidden_act": "gelu_new",
        },
        name="albert-base",
        checkpoint="albert/albert-base-v2",
        model_type="albert",
        parameters=11_683_584,
        summary="ALBERT base v2: encoder of 12 layers that share their weights",
    ),
    encoder(
        "ElectraModel",
        {
            "vocab_size": 30522,
            "embedding_size": 128,
            "hidden_size": 256,
            "num_hidden_layers": 12,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
        },
        name="electra-small",
        checkpoint="google/electra-small-discriminator",
        model_type="electra",
        parameters=13_483_008,
        summary="ELECTRA small discriminator: encoder of 12 layers",
    ),
    encoder(
        "DebertaV2Model",
        {
            "vocab_size": 128100,
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "type_vocab_size": 0,
            "relative_attention": True,
            "max_relative_positions": -1,
            "position_buckets": 256,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": "p2c|c2p",
            "position_biased_input": False,
        },
        name="deberta-v3-base",
        checkpoint="microsoft/deberta-v3-base",
        model_type="deberta_v2",
        parameters=183_831_552,
        summary="DeBERTa v3 base: encoder of 12 layers with disentangled attention",
    ),
)
