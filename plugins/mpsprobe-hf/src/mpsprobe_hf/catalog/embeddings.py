"""Text encoders that people search, compare and rank texts with."""

from __future__ import annotations

from typing import Any

from mpsprobe_hf.catalog.encoders import encoder
from mpsprobe_hf.catalog.entry import Architecture, Entry, Field
from mpsprobe_hf.catalog.fields import padding_mask, tokens


def _sizes(vocabulary: int, width: int, layers: int, heads: int, inner: int, longest: int) -> dict[str, Any]:
    """What nearly every configuration calls these."""
    return {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "max_position_embeddings": longest,
    }


ROBERTA: dict[str, Any] = {"type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1}
"""What XLM-RoBERTa's checkpoints say; its positions begin after the padding token's."""
BGE_M3 = {**_sizes(250002, 1024, 24, 16, 4096, 8194), **ROBERTA}
RANKED = (tokens(250002, pad=1), padding_mask())
RELEVANCE = Field("labels", "floats", ("batch",))

ENTRIES = (
    encoder(
        "ModernBertModel",
        _sizes(50368, 768, 22, 12, 1152, 8192),
        name="modernbert-base",
        checkpoint="answerdotai/ModernBERT-base",
        model_type="modernbert",
        parameters=149_014_272,
        summary="ModernBERT base: encoder of 22 layers, most of them with a local window",
        token_types=False,
        pad=50283,
        longest=8192,
    ),
    encoder(
        "BertModel",
        _sizes(30522, 384, 6, 12, 1536, 512),
        name="all-minilm-l6-v2",
        checkpoint="sentence-transformers/all-MiniLM-L6-v2",
        model_type="bert",
        parameters=22_713_216,
        summary="all-MiniLM-L6-v2: embeddings of sentences, encoder of 6 layers",
    ),
    encoder(
        "MPNetModel",
        _sizes(30527, 768, 12, 12, 3072, 514),
        name="all-mpnet-base-v2",
        checkpoint="sentence-transformers/all-mpnet-base-v2",
        model_type="mpnet",
        parameters=109_486_464,
        summary="all-mpnet-base-v2: embeddings of sentences, encoder of 12 layers",
        token_types=False,
        pad=1,
    ),
    encoder(
        "BertModel",
        _sizes(30522, 384, 12, 12, 1536, 512),
        name="bge-small-en",
        checkpoint="BAAI/bge-small-en-v1.5",
        model_type="bert",
        parameters=33_360_000,
        summary="BGE small, English: embeddings of texts, encoder of 12 layers",
    ),
    encoder(
        "XLMRobertaModel",
        BGE_M3,
        name="bge-m3",
        checkpoint="BAAI/bge-m3",
        model_type="xlm_roberta",
        parameters=567_754_752,
        summary="BGE-M3: embeddings of long texts in many languages, encoder of 24 layers",
        token_types=False,
        pad=1,
        longest=8192,
    ),
    Entry(
        name="bge-reranker-v2-m3",
        family="text",
        summary="BGE reranker v2 M3: how well a passage answers a question",
        checkpoint="BAAI/bge-reranker-v2-m3",
        model_type="xlm_roberta",
        config={**BGE_M3, "num_labels": 1},
        inference=Architecture("XLMRobertaForSequenceClassification", RANKED, 567_755_777),
        training=Architecture("XLMRobertaForSequenceClassification", (*RANKED, RELEVANCE), 567_755_777),
        seq_len=512,
        longest=8192,
    ),
    encoder(
        "XLMRobertaModel",
        {**_sizes(250002, 768, 12, 12, 3072, 514), **ROBERTA},
        name="xlm-roberta-base",
        checkpoint="FacebookAI/xlm-roberta-base",
        model_type="xlm_roberta",
        parameters=278_043_648,
        summary="XLM-RoBERTa base: a hundred languages, encoder of 12 layers",
        token_types=False,
        pad=1,
    ),
    encoder(
        "BertModel",
        _sizes(250037, 384, 12, 12, 1536, 512),
        name="multilingual-e5-small",
        checkpoint="intfloat/multilingual-e5-small",
        model_type="bert",
        parameters=117_653_760,
        summary="Multilingual E5 small: embeddings of texts, encoder of 12 layers",
    ),
    encoder(
        "NomicBertModel",
        _sizes(30528, 768, 12, 12, 3072, 2048),
        name="nomic-embed-text-v1.5",
        checkpoint="nomic-ai/nomic-embed-text-v1.5",
        model_type="nomic_bert",
        parameters=136_731_648,
        summary="Nomic Embed v1.5: embeddings of long texts, encoder of 12 layers",
        longest=2048,
    ),
    encoder(
        "Qwen3Model",
        {
            **_sizes(151669, 1024, 28, 16, 3072, 32768),
            "num_key_value_heads": 8,
            "head_dim": 128,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
        },
        name="qwen3-embedding-0.6b",
        checkpoint="Qwen/Qwen3-Embedding-0.6B",
        model_type="qwen3",
        parameters=595_776_512,
        summary="Qwen3 Embedding 0.6B: a decoder of 28 layers that embeds texts",
        token_types=False,
        pad=151643,
        longest=32768,
    ),
    encoder(
        "Gemma3TextModel",
        {
            **_sizes(262144, 768, 24, 3, 1152, 2048),
            "num_key_value_heads": 1,
            "head_dim": 256,
            "query_pre_attn_scalar": 256,
            "sliding_window": 512,
            "use_bidirectional_attention": True,
        },
        name="embeddinggemma-300m",
        checkpoint="google/embeddinggemma-300m",
        model_type="gemma3",
        parameters=302_863_104,
        summary="EmbeddingGemma 300M: embeddings of texts, encoder of 24 layers",
        token_types=False,
        longest=2048,
    ),
)
