"""Speech and music."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.catalog.entry import Architecture, Entry, Field
from mpsprobe_hf.catalog.fields import EVERY_LAYER, padding_mask, token_labels, tokens

SAMPLE_RATE = 16_000
FRAMES = 3000
"""Mel frames of the 30 seconds that Whisper's feature extractor pads everything to."""


def whisper(
    name: str,
    checkpoint: str,
    *,
    vocabulary: int,
    mels: int,
    width: int,
    layers: int,
    heads: int,
    parameters: int,
    decoder_layers: int = 0,
) -> Entry:
    """A Whisper model; ``seq_len`` counts the tokens of the transcript. As many ``decoder_layers`` where they are 0."""
    decoder_layers = decoder_layers or layers
    features = Field("input_features", "floats", ("batch", mels, FRAMES))
    written = tokens(vocabulary, "decoder_input_ids")
    return Entry(
        name=name,
        family="audio",
        summary=f"Whisper, {layers} + {decoder_layers} layers: 30 seconds of speech to text",
        checkpoint=checkpoint,
        model_type="whisper",
        config={
            "vocab_size": vocabulary,
            "num_mel_bins": mels,
            "d_model": width,
            "encoder_layers": layers,
            "decoder_layers": decoder_layers,
            "encoder_attention_heads": heads,
            "decoder_attention_heads": heads,
            "encoder_ffn_dim": 4 * width,
            "decoder_ffn_dim": 4 * width,
        },
        inference=Architecture("WhisperForConditionalGeneration", (features, written), parameters),
        training=Architecture("WhisperForConditionalGeneration", (features, token_labels(vocabulary)), parameters),
        seq_len=64,
        longest=448,
    )


SPEECH_ENCODER: Mapping[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "feat_extract_norm": "group",
    "layerdrop": 0.0,
}
WAVEFORM = Field("input_values", "floats", ("batch", "seq"))
TRANSCRIPT = Field("labels", "integers", ("batch", 32), 32, {"low": 1})
RECEPTIVE_FIELD = 400
"""Samples that the convolutions in front of wav2vec 2.0 need for one frame."""

BARK_CODES = 256

ENTRIES = (
    whisper(
        "whisper-tiny",
        "openai/whisper-tiny",
        vocabulary=51865,
        mels=80,
        width=384,
        layers=4,
        heads=6,
        parameters=37_760_640,
    ),
    whisper(
        "whisper-large-v3",
        "openai/whisper-large-v3",
        vocabulary=51866,
        mels=128,
        width=1280,
        layers=32,
        heads=20,
        parameters=1_543_490_560,
    ),
    Entry(
        name="wav2vec2-base",
        family="audio",
        summary="wav2vec 2.0 base, fine-tuned on 960 hours: speech to characters (CTC)",
        checkpoint="facebook/wav2vec2-base-960h",
        model_type="wav2vec2",
        config=SPEECH_ENCODER,
        inference=Architecture("Wav2Vec2ForCTC", (WAVEFORM,), 94_396_320),
        training=Architecture("Wav2Vec2ForCTC", (WAVEFORM, TRANSCRIPT), 94_396_320, notes=EVERY_LAYER),
        seq_len=10 * SAMPLE_RATE,
        shortest=RECEPTIVE_FIELD,
        seq_unit="samples at 16 kHz",
    ),
    Entry(
        name="hubert",
        family="audio",
        summary="HuBERT base: features of speech; trained to characters (CTC)",
        checkpoint="facebook/hubert-base-ls960",
        model_type="hubert",
        config=SPEECH_ENCODER,
        inference=Architecture("HubertModel", (WAVEFORM,), 94_371_712),
        training=Architecture("HubertForCTC", (WAVEFORM, TRANSCRIPT), 94_396_320, notes=EVERY_LAYER),
        seq_len=10 * SAMPLE_RATE,
        shortest=RECEPTIVE_FIELD,
        seq_unit="samples at 16 kHz",
    ),
    Entry(
        name="bark",
        family="audio",
        summary="Bark small: text to speech in four stages",
        checkpoint="suno/bark-small",
        model_type="bark",
        config={
            "semantic_config": {"input_vocab_size": 129_600, "output_vocab_size": 10_048, "bias": False},
            "coarse_acoustics_config": {"input_vocab_size": 12_096, "output_vocab_size": 12_096, "bias": False},
            "fine_acoustics_config": {"input_vocab_size": 1_056, "output_vocab_size": 1_056, "bias": False},
            "codec_config": {"model_type": "encodec"},
        },
        inference=Architecture(
            "BarkModel",
            (
                tokens(129_600, "semantic_ids"),
                tokens(12_096, "coarse_ids"),
                Field("fine_ids", "integers", ("batch", BARK_CODES, 8), 1024),
            ),
            404_409_058,
            call="bark_stages",
            notes=("BarkModel has no forward: one forward pass of each stage of generate()",),
        ),
        training=None,
        prompt=(tokens(50_000), padding_mask()),
        seq_len=256,
        longest=1024,
    ),
    Entry(
        name="speecht5",
        family="audio",
        summary="SpeechT5: text to a mel spectrogram",
        checkpoint="microsoft/speecht5_tts",
        model_type="speecht5",
        config={"vocab_size": 81, "max_text_positions": 600, "max_speech_positions": 1876}
        | {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0},
        inference=Architecture(
            "SpeechT5ForTextToSpeech",
            (
                tokens(81, pad=1),
                padding_mask(),
                Field("decoder_input_values", "floats", ("batch", 200, 80)),
                Field("speaker_embeddings", "floats", ("batch", 512)),
            ),
            144_431_684,
        ),
        training=Architecture(
            "SpeechT5ForTextToSpeech",
            (
                tokens(81, pad=1),
                padding_mask(),
                Field("speaker_embeddings", "floats", ("batch", 512)),
                Field("labels", "floats", ("batch", 400, 80)),
            ),
            144_431_684,
            notes=EVERY_LAYER,
        ),
        seq_len=128,
        longest=600,
    ),
    Entry(
        name="musicgen",
        family="audio",
        summary="MusicGen small: text to the codes of music",
        checkpoint="facebook/musicgen-small",
        model_type="musicgen",
        config={
            "text_encoder": {
                "model_type": "t5",
                "vocab_size": 32128,
                "d_model": 768,
                "d_ff": 3072,
                "num_layers": 12,
                "num_heads": 12,
            },
            "audio_encoder": {
                "model_type": "encodec",
                "sampling_rate": 32_000,
                "target_bandwidths": [2.2],
                "upsampling_ratios": [8, 5, 4, 4],
                "num_filters": 64,
                "codebook_size": 2048,
                "use_causal_conv": False,
                "use_conv_shortcut": False,
            },
            "decoder": {
                "model_type": "musicgen_decoder",
                "vocab_size": 2048,
                "hidden_size": 1024,
                "num_hidden_layers": 24,
                "ffn_dim": 4096,
                "num_attention_heads": 16,
                "num_codebooks": 4,
                "decoder_start_token_id": 2048,
            },
        },
        inference=Architecture(
            "MusicgenForConditionalGeneration",
            (
                Field("input_ids", "tokens", ("batch", 16), 32128),
                Field("attention_mask", "padding_mask", ("batch", 16)),
                Field("decoder_input_ids", "integers", ("4*batch", "seq"), 2048),
            ),
            586_884_674,
        ),
        training=Architecture(
            "MusicgenForConditionalGeneration",
            (
                Field("input_ids", "tokens", ("batch", 16), 32128),
                Field("attention_mask", "padding_mask", ("batch", 16)),
                Field("labels", "integers", ("batch", "seq", 4), 2048),
            ),
            586_884_674,
        ),
        seq_len=256,
        longest=2048,
        seq_unit="audio frames (50 for a second)",
    ),
)
