"""Text encoders. They run as the bare encoder in both phases; training adds the loss of a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.catalog.entry import Architecture, Entry, Field
from mpsprobe_hf.catalog.fields import padding_mask, tokens, zeros

HEADLESS = (
    "trained as the bare encoder, with cross-entropy on the first token's features; "
    "for a head say for example hf:bert/BertForSequenceClassification",
)


def encoder(
    name: str,
    checkpoint: str,
    model_class: str,
    config: Mapping[str, Any],
    *,
    model_type: str,
    config_class: str,
    parameters: int,
    summary: str,
    token_types: bool = True,
    longest: int = 512,
    pad: int = 0,
) -> Entry:
    """An encoder that reads up to ``longest`` tokens.

    Args:
        name: what the user types.
        checkpoint: the published model.
        model_class: the bare encoder.
        config: the checkpoint's configuration; ``vocab_size`` is among it.
        model_type, config_class: where it lives in transformers.
        parameters: of the bare encoder.
        summary: one line.
        token_types: whether the checkpoint's tokenizer returns ``token_type_ids``.
        longest: tokens; for RoBERTa two fewer than it has positions.
        pad: the id of the padding token.
    """
    inputs: tuple[Field, ...] = (tokens(config["vocab_size"], pad=pad), padding_mask())
    if token_types:
        inputs = (inputs[0], zeros("token_type_ids"), inputs[1])
    return Entry(
        name=name,
        family="text",
        summary=summary,
        checkpoint=checkpoint,
        model_type=model_type,
        config_class=config_class,
        config=config,
        inference=Architecture(model_class, inputs, parameters),
        training=Architecture(model_class, inputs, parameters, loss="first_token", notes=HEADLESS),
        seq_len=128,
        longest=longest,
    )


ENTRIES = (
    encoder(
        "bert-base",
        "google-bert/bert-base-uncased",
        "BertModel",
        {
            "vocab_size": 30522,
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "max_position_embeddings": 512,
        },
        model_type="bert",
        config_class="BertConfig",
        parameters=109_482_240,
        summary="BERT base, uncased: encoder of 12 layers",
    ),
    encoder(
        "bert-large",
        "google-bert/bert-large-uncased",
        "BertModel",
        {
            "vocab_size": 30522,
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
            "max_position_embeddings": 512,
        },
        model_type="bert",
        config_class="BertConfig",
        parameters=335_141_888,
        summary="BERT large, uncased: encoder of 24 layers",
    ),
    encoder(
        "distilbert",
        "distilbert/distilbert-base-uncased",
        "DistilBertModel",
        {"vocab_size": 30522, "dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072},
        model_type="distilbert",
        config_class="DistilBertConfig",
        parameters=66_362_880,
        summary="DistilBERT base, uncased: encoder of 6 layers",
        token_types=False,
    ),
    encoder(
        "roberta-base",
        "FacebookAI/roberta-base",
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
        model_type="roberta",
        config_class="RobertaConfig",
        parameters=124_645_632,
        summary="RoBERTa base: encoder of 12 layers",
        token_types=False,
        pad=1,
    ),
    encoder(
        "albert-base",
        "albert/albert-base-v2",
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
        model_type="albert",
        config_class="AlbertConfig",
        parameters=11_683_584,
        summary="ALBERT base v2: encoder of 12 layers that share their weights",
    ),
    encoder(
        "electra-small",
        "google/electra-small-discriminator",
        "ElectraModel",
        {
            "vocab_size": 30522,
            "embedding_size": 128,
            "hidden_size": 256,
            "num_hidden_layers": 12,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
        },
        model_type="electra",
        config_class="ElectraConfig",
        parameters=13_483_008,
        summary="ELECTRA small discriminator: encoder of 12 layers",
    ),
    encoder(
        "deberta-v3-base",
        "microsoft/deberta-v3-base",
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
        model_type="deberta_v2",
        config_class="DebertaV2Config",
        parameters=183_831_552,
        summary="DeBERTa v3 base: encoder of 12 layers with disentangled attention",
    ),
)
