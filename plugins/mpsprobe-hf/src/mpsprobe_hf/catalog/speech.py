"""Speech models of the years since 2023: to text and from text."""

from __future__ import annotations

from mpsprobe_hf.catalog.audio import FRAMES, SAMPLE_RATE, whisper
from mpsprobe_hf.catalog.entry import Architecture, Entry, Field
from mpsprobe_hf.catalog.fields import EVERY_LAYER, padding_mask, tokens
from mpsprobe_hf.catalog.vision_language import reader, text


def moonshine(name: str, checkpoint: str, parameters: int, width: int, layers: int, rotary: float) -> Entry:
    """A Moonshine model; ``seq_len`` counts samples."""
    sound, written = Field("input_values", "floats", ("batch", "seq")), ("batch", 32)
    model = "MoonshineForConditionalGeneration"
    return Entry(
        name=name,
        family="audio",
        summary=f"Moonshine, {layers} + {layers} layers: speech of any length to text",
        checkpoint=checkpoint,
        model_type="moonshine",
        config={
            "hidden_size": width,
            "intermediate_size": 4 * width,
            "pad_token_id": 2,
            "encoder_num_hidden_layers": layers,
            "decoder_num_hidden_layers": layers,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": rotary},
        },
        inference=Architecture(model, (sound, Field("decoder_input_ids", "integers", written, 32768)), parameters),
        training=Architecture(model, (sound, Field("labels", "integers", written, 32768)), parameters),
        seq_len=10 * SAMPLE_RATE,
        shortest=1000,
        seq_unit="samples at 16 kHz",
    )


PARAKEET_SOUND = (
    Field("input_features", "floats", ("batch", "seq", 80)),
    Field("attention_mask", "flags", ("batch", "seq")),
)
DIA_INPUTS = (tokens(256), padding_mask(), Field("decoder_input_ids", "integers", ("batch", 128, 9), 1024))

ENTRIES = (
    whisper(
        "whisper-base",
        "openai/whisper-base",
        vocabulary=51865,
        mels=80,
        width=512,
        layers=6,
        heads=8,
        parameters=72_593_920,
    ),
    whisper(
        "whisper-small",
        "openai/whisper-small",
        vocabulary=51865,
        mels=80,
        width=768,
        layers=12,
        heads=12,
        parameters=241_734_912,
    ),
    whisper(
        "whisper-medium",
        "openai/whisper-medium",
        vocabulary=51865,
        mels=80,
        width=1024,
        layers=24,
        heads=16,
        parameters=763_857_920,
    ),
    whisper(
        "whisper-large-v3-turbo",
        "openai/whisper-large-v3-turbo",
        vocabulary=51866,
        mels=128,
        width=1280,
        layers=32,
        decoder_layers=4,
        heads=20,
        parameters=808_878_080,
    ),
    whisper(
        "distil-large-v3",
        "distil-whisper/distil-large-v3",
        vocabulary=51866,
        mels=128,
        width=1280,
        layers=32,
        decoder_layers=2,
        heads=20,
        parameters=756_405_760,
    ),
    moonshine("moonshine-tiny", "UsefulSensors/moonshine-tiny", 27_092_736, 288, 6, 0.9),
    moonshine("moonshine-base", "UsefulSensors/moonshine-base", 61_513_920, 416, 8, 0.62),
    Entry(
        name="parakeet-ctc-1.1b",
        family="audio",
        summary="Parakeet CTC 1.1B: speech to text, FastConformer of 42 layers",
        checkpoint="nvidia/parakeet-ctc-1.1b",
        model_type="parakeet",
        configuration="ParakeetCTCConfig",
        config={"vocab_size": 1025, "encoder_config": {"num_hidden_layers": 42, "layerdrop": 0.0}},
        inference=Architecture("ParakeetForCTC", PARAKEET_SOUND, 1_062_540_289),
        training=Architecture(
            "ParakeetForCTC",
            (*PARAKEET_SOUND, Field("labels", "integers", ("batch", 32), 1024)),
            1_062_540_289,
            notes=EVERY_LAYER,
        ),
        seq_len=1000,
        shortest=16,
        seq_unit="mel frames (100 for a second)",
    ),
    Entry(
        name="mms-tts",
        family="audio",
        summary="MMS text to speech, English: VITS",
        checkpoint="facebook/mms-tts-eng",
        model_type="vits",
        config={"vocab_size": 38},
        inference=Architecture("VitsModel", (tokens(38), padding_mask()), 36_284_592),
        training=None,
        seq_len=64,
    ),
    Entry(
        name="csm-1b",
        family="audio",
        summary="CSM 1B: text and speech to speech, decoder of 16 layers",
        checkpoint="sesame/csm-1b",
        model_type="csm",
        config={},
        inference=Architecture(
            "CsmForConditionalGeneration",
            (
                tokens(128000),
                padding_mask(),
            ),
            1_632_100_161,
        ),
        training=None,
        seq_len=128,
        longest=2048,
    ),
    Entry(
        name="dia-1.6b",
        family="audio",
        summary="Dia 1.6B: a dialogue's text to speech",
        checkpoint="nari-labs/Dia-1.6B-0626",
        model_type="dia",
        config={},
        inference=Architecture("DiaForConditionalGeneration", DIA_INPUTS, 1_611_160_576),
        training=Architecture(
            "DiaForConditionalGeneration",
            (*DIA_INPUTS, Field("labels", "integers", ("9*batch", 128), 1024)),
            1_611_160_576,
        ),
        seq_len=128,
        longest=1024,
    ),
    reader(
        "voxtral-mini-3b",
        "mistralai/Voxtral-Mini-3B-2507",
        4_676_271_104,
        model_class="VoxtralForConditionalGeneration",
        model_type="voxtral",
        summary="chat about 30 seconds of speech, decoder of 30 layers",
        config={
            "text_config": text(
                (131072, 3072, 30, 32, 8, 8192, 131072), 1e8, model_type="llama", head_dim=128, rms_norm_eps=1e-5
            ),
            "audio_token_id": 24,
        },
        pixels=(Field("input_features", "floats", ("batch", 128, FRAMES)),),
        image_token=24,
        count=FRAMES // 8,
        pad=11,
        longest=131072,
    ),
)
