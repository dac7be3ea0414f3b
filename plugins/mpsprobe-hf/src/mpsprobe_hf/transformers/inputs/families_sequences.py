"""Corrections for models of text, sound and series. The values are those of the checkpoint that the comment names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mpsprobe_hf.transformers.inputs.family import Family
from mpsprobe_hf.transformers.inputs.forms import TEXT, Argument

TOURISM: Mapping[str, Any] = {
    "prediction_length": 24,
    "context_length": 48,
    "lags_sequence": [1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 23, 24, 25, 35, 36, 37],
    "num_time_features": 2,
    "num_static_categorical_features": 1,
    "cardinality": [366],
    "embedding_dimension": [6],
}
"""Of ``huggingface/time-series-transformer-tourism-monthly``, and the same for Informer and Autoformer."""

HALF_ROTARY: Mapping[str, Any] = {
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
        "mrope_section": [8, 12, 12],
    },
}
"""Of ``zai-org/GLM-4.1V-9B-Thinking``; its sections are those of half a head of 128."""

WIDE_SOUND: Mapping[str, Any] = {"projector_config": {"encoder_hidden_size": 1024}}
"""Of ``ibm-granite/granite-speech-3.3-8b``."""

FEW_TOKENS: Mapping[str, int] = {"audio_tokens": 54}
"""Three for each window of 15 frames, of which 256 have 18."""

SPOKEN: Mapping[str, Argument] = {
    "spectrogram_labels": Argument("floats", ("batch", "seq", 80)),
    "duration_labels": Argument("ones", ("batch", "seq")),
    "pitch_labels": Argument("floats", ("batch", "seq", 1)),
    "energy_labels": Argument("floats", ("batch", "seq", 1)),
}
"""What FastSpeech 2 is trained with: here a frame for each phoneme."""

SUNG: Mapping[str, Any] = {
    "text_encoder": {"model_type": "t5"},
    "audio_encoder": {"model_type": "encodec"},
}
"""The parts of ``facebook/musicgen-small``, which older releases of transformers do not fill in."""
STARTS: Mapping[str, Any] = {"decoder_start_token_id": 2048}
BY_CODEBOOK: Mapping[str, Argument] = {
    "input_ids": Argument("integers", ("codebooks*batch", "seq"), 2048),
    "labels": Argument("integers", ("batch", "seq", "codebooks"), 2048),
}
"""A row of codes for each codebook."""
READ_AFTER: Mapping[str, Argument] = {
    "decoder_input_ids": replace(BY_CODEBOOK["input_ids"], with_=("encoder",)),
    "labels": BY_CODEBOOK["labels"],
}
"""The same, for a decoder that follows a text."""
READS: Mapping[str, Any] = {"model_type": "bert", "is_decoder": True, "add_cross_attention": True}
"""A decoder as in ``patrickvonplaten/bert2bert_cnn_daily_mail``."""


def _every(period: int, first: int, count: int) -> list[str]:
    """The kinds of ``count`` layers, of which one in ``period`` attends."""
    return ["full_attention" if layer % period == first else "linear_attention" for layer in range(count)]


SEQUENCES: Mapping[str, Family] = {
    # text
    "xmod": Family(config={"default_language": "en_XX"}),
    "bamba": Family(config={"attn_layer_indices": [9, 18, 27]}),  # ibm-ai-platform/Bamba-9B-v2
    "blt": Family(
        # Where patches begin depends on the text: at each byte.
        arguments={"patch_lengths": Argument("ones", ("batch", "seq"))},
        more=("patch_lengths",),
    ),
    "canine": Family(measures={"vocabulary": 0x110000}),  # characters of Unicode: no table of them
    "cohere_compass_text": Family(
        config={
            "rope_parameters": {
                kind: {"rope_type": "default", "rope_theta": 10000.0}
                for kind in ("full_attention", "sliding_attention")
            }
        }
    ),
    "dbrx": Family(config={"attn_config": {"rope_theta": 500000, "kv_n_heads": 8, "clip_qkv": 8}}),  # dbrx-instruct
    "deepseek_v2": Family(
        config={"num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_intermediate_size": 1408}
    ),  # DeepSeek-V2-Lite
    "diffusion_gemma_text": Family(
        config={"num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704}
    ),  # no public checkpoint: the mixture of google/gemma-4-26B-A4B
    "dots1": Family(
        config={
            "n_routed_experts": 128,
            "num_experts_per_tok": 6,
            "n_shared_experts": 2,
            "first_k_dense_replace": 1,
        }
    ),  # rednote-hilab/dots.llm1.base
    "encoder-decoder": Family(config={"encoder": {"model_type": "bert"}, "decoder": READS}),
    "esm": Family(config={"vocab_size": 33, "mask_token_id": 32, "pad_token_id": 1}),  # facebook/esm2_t33_650M_UR50D
    "glm4v_text": Family(config=HALF_ROTARY),
    "glm4v_moe_text": Family(config={**HALF_ROTARY, "head_dim": 128}),  # zai-org/GLM-4.5V
    "glm_image_text": Family(config=HALF_ROTARY),
    "granitemoehybrid": Family(config={"layer_types": _every(10, 5, 32)}),  # ibm-granite/granite-4.0-tiny-preview
    "hunyuan_vl_text": Family(
        config={
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [16, 16, 16, 16]},
        }
    ),  # tencent/HunyuanOCR
    "jev": Family(
        arguments={
            "marks": Argument("integers", ("batch", 4), 64),
            "num_options": Argument("ones", ("batch", 4)),
            "question_type_ids": Argument("integers", ("batch", 4), 1),
        }
    ),  # four questions in a text
    "lfm2_moe": Family(
        config={
            "num_hidden_layers": 24,
            "layer_types": ["full_attention" if n in (2, 6, 10, 14, 18, 21) else "conv" for n in range(24)],
        }
    ),  # LiquidAI/LFM2-8B-A1B
    "qwen4_exp_text": Family(
        config={
            "indexer_n_heads": 4,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 256,
            "indexer_budget": 2048,
            "indexer_compress_ratio": 4,
        }
    ),  # no public checkpoint: what its class asks for
    "step3p5": Family(config={"sliding_window": 512}),  # stepfun-ai/Step-3.5-Flash
    "t5gemma2_text": Family(config={"dropout_rate": 0.0}),  # google/t5gemma-2-270m-270m
    "perceiver": Family(
        config={"num_cross_attention_heads": 1}
    ),  # deepmind/vision-perceiver-fourier; its channels cannot be divided by the 8 of the one for language
    "rag": Family(
        config={"question_encoder": {"model_type": "dpr"}, "generator": {"model_type": "bart"}},
        arguments={
            "context_input_ids": Argument("tokens", ("5*batch", "seq"), "vocabulary"),
            "context_attention_mask": Argument("padding_mask", ("5*batch", "seq")),
            "doc_scores": Argument("floats", ("batch", 5)),
        },
        more=("context_input_ids", "context_attention_mask", "doc_scores"),
    ),  # facebook/rag-token-nq
    # sound
    "csm": Family(
        arguments={"labels": Argument("integers", ("batch", "seq", 32), 2051)}, without=("input_values",)
    ),  # sesame/csm-1b: 32 codebooks; sound is context, which the first sentence has not
    "dia": Family(
        measures={"vocabulary": 256},
        arguments={"decoder_input_ids": Argument("integers", ("batch", "seq", 9), 1028, with_=("encoder",))},
    ),  # nari-labs/Dia-1.6B-0626: bytes, and 9 channels of sound
    "fastspeech2_conformer": Family(arguments=SPOKEN),
    "fastspeech2_conformer_with_hifigan": Family(arguments=SPOKEN),
    "granite_speech": Family(config=WIDE_SOUND, measures=FEW_TOKENS, without=("input_features_mask",)),
    "granite_speech_plus": Family(config=WIDE_SOUND, measures=FEW_TOKENS, without=("input_features_mask",)),
    "higgs_audio_v2_tokenizer": Family(
        config={"acoustic_model_config": {"downsampling_ratios": [8, 5, 4, 2, 3], "upsampling_ratios": [8, 5, 4, 2, 3]}}
    ),  # bosonai/higgs-audio-v2-tokenizer
    "kyutai_speech_to_text": Family(
        arguments={"input_ids": Argument("integers", ("batch", "seq", 33), 2048)}
    ),  # kyutai/stt-2.6b-en: 32 codebooks of audio and one column of text
    "moonshine_streaming": Family(config={"num_key_value_heads": 8}),  # UsefulSensors/moonshine-streaming-tiny
    "musicgen": Family(config={**SUNG, "decoder": {"model_type": "musicgen_decoder", **STARTS}}, arguments=READ_AFTER),
    "musicgen_melody": Family(
        config={**SUNG, "decoder": {"model_type": "musicgen_melody_decoder", **STARTS}}, arguments=READ_AFTER
    ),
    "musicgen_decoder": Family(arguments=BY_CODEBOOK),
    "musicgen_melody_decoder": Family(arguments=BY_CODEBOOK),
    "nemotron_h_omni": Family(config={"audio_config": {"projection_hidden_size": 4096, "projection_bias": False}}),
    "qwen3_omni_moe_talker_code_predictor": Family(more=("inputs_embeds",), without=("input_ids",)),
    "qwen3_omni_moe_talker_text": Family(
        config={"shared_expert_intermediate_size": 768}, more=("inputs_embeds",), without=("input_ids",)
    ),
    "qwen3_omni_moe_text": Family(
        config={"num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128}
    ),  # Qwen/Qwen3-Omni-30B-A3B-Instruct
    "speech-encoder-decoder": Family(config={"encoder": {"model_type": "wav2vec2"}, "decoder": READS}),
    "speecht5": Family(
        arguments={
            "input_values": Argument("floats", ("batch", "seq", "hidden")),
            "decoder_input_values": Argument("floats", ("batch", "seq", "hidden"), with_=("encoder",)),
        }
    ),  # its prenets belong to the heads
    "vibevoice_acoustic_tokenizer_decoder": Family(
        arguments={"hidden_states": Argument("floats", ("batch", "hidden", "codes"))}
    ),
    "vibevoice_acoustic_tokenizer_encoder": Family(
        arguments={"hidden_states": Argument("floats", ("batch", 1, "samples"))}
    ),
    "voxtral_realtime": Family(
        arguments={"input_features": Argument("floats", ("batch", "mels", "8*seq"), with_=TEXT)}
    ),  # a token for each eight frames
    "voxtral_realtime_text": Family(more=("t_cond",)),
    # series
    "autoformer": Family(config=TOURISM),
    "informer": Family(config=TOURISM),
    "time_series_transformer": Family(config=TOURISM),
}
