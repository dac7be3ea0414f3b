"""Audio pipelines."""

from __future__ import annotations

from collections.abc import Iterator

from mpsprobe_hf.diffusers.catalog.entry import Component, Entry

_OOBLECK = {"channel_multiples": (1, 2, 4, 8, 16), "downsampling_ratios": (2, 4, 4, 8, 8)}


def audio() -> Iterator[Entry]:
    """All of them."""
    yield Entry(
        name="stable-audio-open-1.0",
        pipeline="StableAudioPipeline",
        checkpoint="stabilityai/stable-audio-open-1.0",
        summary="Text to 47 seconds of stereo sound.",
        components={
            "vae": Component("AutoencoderOobleck", _OOBLECK, {"encoder_hidden_size": 16, "decoder_channels": 16}),
            "text_encoder": Component(
                "T5EncoderModel", {"d_model": 768, "d_ff": 3072, "num_heads": 12, "num_layers": 12}
            ),
            "projection_model": Component(
                "StableAudioProjectionModel",
                {"text_encoder_dim": 768, "conditioning_dim": 768, "min_value": 0, "max_value": 512},
            ),
            "transformer": Component("StableAudioDiTModel", {}, {"sample_size": 64}),
            "scheduler": Component(
                "CosineDPMSolverMultistepScheduler",
                {"sigma_min": 0.3, "sigma_max": 500.0, "sigma_data": 1.0, "sigma_schedule": "exponential",
                 "prediction_type": "v_prediction", "solver_order": 2},
            ),
        },
        family="audio",
        requires=("torchsde",),
    )  # fmt: skip
